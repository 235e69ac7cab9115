-- What `infill-ls bench editor` does in Neovim: presses a key in one function after the other and notes when what happens.
-- Called with a file of JSON (what to do) in $BENCH_ORDER; writes a file of JSON (the times, in seconds since 1970) and quits.

local function read(path)
  return table.concat(vim.fn.readfile(path), '\n')
end

local order = vim.json.decode(read(vim.env.BENCH_ORDER))
local seconds, microseconds = vim.uv.gettimeofday()
local offset = seconds + microseconds / 1e6 - vim.uv.hrtime() / 1e9 -- from the monotonic clock to the time of day

local function now()
  return vim.uv.hrtime() / 1e9 + offset
end

local METHOD = 'textDocument/inlineCompletion'
local press = nil ---@type table?
local presses = {}

---@return string? the first line of the ghost text, if any is shown
local function ghost()
  local space = vim.api.nvim_get_namespaces()['nvim.lsp.inline_completion']
  local mark = space and vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { limit = 1, details = true })[1]
  local chunk = mark and mark[4].virt_text and mark[4].virt_text[1]
  return mark and (chunk and chunk[1] or '')
end

---A key that does not go on with what is shown: that would be answered from memory, without the model.
local function unexpected()
  local first = (ghost() or ''):sub(1, 1)
  return order.keys:sub(1, 1) ~= first and order.keys:sub(1, 1) or order.keys:sub(2, 2)
end

-- A redraw that has the ghost text in it is what a user sees.
vim.api.nvim_set_decoration_provider(vim.api.nvim_create_namespace('bench'), {
  on_end = function()
    if press and press.answered and not press.painted and ghost() then
      press.painted = now()
    end
  end,
})

vim.api.nvim_create_autocmd('LspRequest', {
  callback = function(event)
    local request = event.data.request
    if not press or request.method ~= METHOD then
      return
    end
    if request.type == 'pending' and not press.answered then
      press.asked, press.id = press.asked or now(), event.data.request_id -- a newer request takes an older one's place
    elseif request.type == 'complete' and event.data.request_id == press.id then
      press.answered = press.answered or now()
    end
  end,
})

local function finish(problem)
  vim.fn.writefile({ vim.json.encode({ presses = presses, problem = problem }) }, order.result)
  vim.cmd('qall!')
end

local function after(ms, next)
  vim.defer_fn(next, ms)
end

local function wait(found, limit_ms, next)
  local began = vim.uv.hrtime()
  local function look()
    if found() then
      next(true)
    elseif (vim.uv.hrtime() - began) / 1e6 > limit_ms then
      next(false)
    else
      after(5, look)
    end
  end
  look()
end

-- All functions but one are whole, as around a user at work: a model copies what it sees at the end of the others.
local function keystroke(number)
  if number > order.keystrokes then
    return finish()
  end
  local line = (number - 1) * order.height + order.line
  local whole = vim.fn.getline(line)
  vim.fn.setline(line, whole:sub(1, order.column))
  vim.api.nvim_win_set_cursor(0, { line, order.column })
  vim.cmd.startinsert({ bang = true })
  after(order.pause_ms, function() -- what comes by itself with insert mode has come by now
    local key = unexpected()
    press = { key = now() }
    vim.api.nvim_input(key)
    wait(function() -- not every place gets a suggestion
      return press.painted or press.answered and now() - press.answered > 1
    end, order.patience_ms, function()
      presses[#presses + 1] = press
      press = nil
      vim.cmd.stopinsert()
      vim.fn.setline(line, whole)
      after(20, function()
        keystroke(number + 1)
      end)
    end)
  end)
end

vim.lsp.config('infill', { cmd = order.cmd, filetypes = { 'python' }, init_options = order.settings })
vim.lsp.enable('infill')
vim.lsp.inline_completion.enable()
vim.cmd.edit(order.file)
vim.bo.filetype = 'python'

local function state()
  local client = vim.lsp.get_clients({ name = 'infill', bufnr = 0 })[1]
  if not client or not client.initialized then
    return nil
  end
  local answer = client:request_sync('infill/status', {}, 1000, 0)
  return answer and answer.result and answer.result.state
end

local function await_model(tries)
  local now_ = state()
  if now_ == 'ready' or now_ == 'busy' then
    keystroke(1)
  elseif tries == 0 then
    finish('the model was not ready in time: ' .. tostring(now_))
  else
    after(200, function()
      await_model(tries - 1)
    end)
  end
end

await_model(order.patience_ms / 200)

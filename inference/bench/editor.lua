-- The part of `infill-ls bench editor` that runs in Neovim: presses a key in one function after the other, and records
-- when each stage of the answer comes. $BENCH_PLAN says what to do, in JSON. Writes a JSON file with the times (in seconds
-- since 1970) and quits.

local plan = vim.json.decode(vim.env.BENCH_PLAN)
local PAUSE_MS, PATIENCE_MS = 700, 30000
-- Either begins a word of each function, and the model does not expect one of the two.
local KEYS = 'tf'
local FUNCTION = [[
def name_N(first, second):
    """Add what is N."""
    total = first + N
    for value in second:
        total += value
    return total


]]
local HEIGHT, LINE, COLUMN = 8, 6, #'    return '
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

---A key that differs from the next character shown: one that agreed would be answered without the model.
local function unexpected()
  local first = (ghost() or ''):sub(1, 1)
  return KEYS:sub(1, 1) ~= first and KEYS:sub(1, 1) or KEYS:sub(2, 2)
end

-- A user sees the ghost text once a redraw has drawn it.
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
      press.asked, press.id = press.asked or now(), event.data.request_id -- a newer request replaces an older one
    elseif request.type == 'complete' and event.data.request_id == press.id then
      press.answered = press.answered or now()
    end
  end,
})

local function finish(problem)
  vim.fn.writefile({ vim.json.encode({ presses = presses, problem = problem }) }, plan.result)
  vim.cmd('qall!')
end

if vim.fn.has('nvim-0.12') == 0 then
  return finish('this needs Neovim 0.12 or newer')
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

-- Leave all other functions whole, as a user would: a model copies what it sees at the end of the others.
local function keystroke(number)
  if number > plan.keystrokes then
    return finish()
  end
  local line = (number - 1) * HEIGHT + LINE
  local whole = vim.fn.getline(line)
  vim.fn.setline(line, whole:sub(1, COLUMN))
  vim.api.nvim_win_set_cursor(0, { line, COLUMN })
  vim.cmd.startinsert({ bang = true })
  after(PAUSE_MS, function()
    wait(ghost, PATIENCE_MS / 20, function() -- the automatic suggestion of insert mode, if there is one
      local key = unexpected()
      press = { key = now() }
      vim.api.nvim_input(key)
      wait(function() -- there may be no suggestion
        return press.painted or press.answered and now() - press.answered > 1
      end, PATIENCE_MS, function()
        presses[#presses + 1] = press
        press = nil
        vim.cmd.stopinsert()
        vim.fn.setline(line, whole)
        after(20, function()
          keystroke(number + 1)
        end)
      end)
    end)
  end)
end

vim.lsp.config('infill', { cmd = plan.cmd, filetypes = { 'python' } })
vim.lsp.enable('infill')
vim.lsp.inline_completion.enable()
local lines = {}
for number = 0, plan.keystrokes - 1 do
  vim.list_extend(lines, vim.split((FUNCTION:gsub('N', number)), '\n'))
  table.remove(lines)
end
vim.fn.writefile(lines, plan.file)
vim.cmd.edit(plan.file)
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

await_model(PATIENCE_MS / 200)

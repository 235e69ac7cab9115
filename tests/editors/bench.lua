-- The part of `infill-ls bench editor` that runs in Neovim: rests at one place after the other, types there, and
-- records when each stage of the answer comes. $BENCH_PLAN says what to do, in JSON. Writes a JSON file with the times
-- (in seconds since 1970), by the setting `readAhead`, and quits.

local plan = vim.json.decode(vim.env.BENCH_PLAN)
local REST_MS, PATIENCE_MS, LOADING_MS = 1000, 30000, 120000
local FUNCTION = [[
def name_N(first, second):
    """Add what is N."""
    total = first + N
    for value in second:
        total += value
    return total


]]
local HEIGHT, LINE = 8, 6
-- Of so many functions one lacks its end. A model copies those of the others, and sees fewer than lie between two.
local APART = 16
local seconds, microseconds = vim.uv.gettimeofday()
local offset = seconds + microseconds / 1e6 - vim.uv.hrtime() / 1e9 -- from the monotonic clock to the time of day

local function now()
  return vim.uv.hrtime() / 1e9 + offset
end

local METHOD = 'textDocument/inlineCompletion'
local press = nil ---@type table?
local presses = { on = {}, off = {} }

---@return boolean whether ghost text is shown
local function ghost()
  local space = vim.api.nvim_get_namespaces()['nvim.lsp.inline_completion']
  return space ~= nil and vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { limit = 1 })[1] ~= nil
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

local function visit(client, number)
  if number > 2 * plan.keystrokes then
    return finish()
  end
  local read_ahead = number % 2 == 1 and 'on' or 'off'
  client:notify('workspace/didChangeConfiguration', { settings = { infill = { readAhead = read_ahead } } })
  vim.api.nvim_input(('%dG$'):format(((number + 1) * APART - 1) * HEIGHT + LINE))
  after(REST_MS, function()
    press = { key = now() }
    vim.api.nvim_input('At')
    wait(function() -- there may be no suggestion
      return press.painted or press.answered and now() - press.answered > 1
    end, PATIENCE_MS, function()
      if number > 0 then -- the first warms up
        table.insert(presses[read_ahead], press)
      end
      press = nil
      vim.api.nvim_input('otal<Esc>')
      after(REST_MS, function()
        visit(client, number + 1)
      end)
    end)
  end)
end

vim.opt.runtimepath:prepend(plan.plugin)
require('infill').setup({
  cmd = plan.cmd,
  filetypes = { 'python' },
  settings = { model = plan.model },
  drafts = false,
  next_edits = false, -- the search for one takes the time in which the worker reads ahead
})
local lines = {}
for number = 1, (2 * plan.keystrokes + 1) * APART do
  local text = FUNCTION:gsub('N', number)
  vim.list_extend(lines, vim.split(number % APART == 0 and text:gsub('return total', 'return ') or text, '\n'))
  table.remove(lines)
end
vim.fn.writefile(lines, plan.file)
vim.cmd.edit(plan.file)
vim.bo.filetype = 'python'

local function state(client)
  local answer = client and client.initialized and client:request_sync('infill/status', {}, 1000, 0)
  return answer and answer.result and answer.result.state
end

local function await_model(tries)
  local client = vim.lsp.get_clients({ name = 'infill', bufnr = 0 })[1]
  local now_ = state(client)
  if now_ == 'ready' or now_ == 'busy' then
    visit(client, 0)
  elseif tries == 0 then
    finish('the model was not ready in time: ' .. tostring(now_))
  else
    after(200, function()
      await_model(tries - 1)
    end)
  end
end

await_model(LOADING_MS / 200)

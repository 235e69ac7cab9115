--- Tells a new user once which better model than the embedded one this machine runs.

local M = {}

--- The first model is loaded by then: to look at the machine takes a processor some seconds.
M.wait_ms = 20000

---@return string
local function told_file()
  return vim.fs.joinpath(vim.fn.stdpath('state'), 'infill-told-of-models')
end

---@param offer { text: string, command: string, model: string }
local function tell(offer)
  local lines = { offer.text }
  if offer.command ~= '' then
    table.insert(lines, 'To get it, in a shell: ' .. offer.command)
  end
  table.insert(lines, ("To use it: require('infill').setup({ settings = { model = '%s' } })"):format(offer.model))
  require('infill').notify(table.concat(lines, '\n'), vim.log.levels.INFO)
  vim.fn.mkdir(vim.fn.stdpath('state'), 'p')
  vim.fn.writefile({}, told_file())
end

---@param cmd string[]
local function look(cmd)
  vim.system({ cmd[1], 'models', '--json' }, { text = true, timeout = 120000, cwd = vim.uv.os_homedir() }, function(done)
    local read, found = pcall(vim.json.decode, done.stdout or '', { luanil = { object = true } })
    if done.code == 0 and read and found.offer then
      vim.schedule(function()
        tell(found.offer)
      end)
    end
  end)
end

--- Say it, some time from now, unless the user has set a model or was told before.
---@param options infill.Resolved
function M.offer_model(options)
  -- Where another program starts infill-ls, such as python, its own `models` would be a file of the current folder.
  if options.settings.model or options.cmd[2] ~= 'serve' or vim.uv.fs_stat(told_file()) then
    return
  end
  vim.defer_fn(function()
    if not vim.uv.fs_stat(told_file()) then
      look(options.cmd)
    end
  end, M.wait_ms)
end

return M

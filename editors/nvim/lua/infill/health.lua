--- `:checkhealth infill`

local M = {}

--- The report functions, which have different names in older Neovims.
local reports = vim.health or require('health')
local old_start, old_error = reports.start or reports.report_start, reports.error or reports.report_error

---@return boolean # whether the rest can be looked at
local function check_version()
  local old = require('infill').too_old()
  if old then
    old_error(old, { 'Install Neovim 0.12 or newer' })
    return false
  end
  vim.health.ok('Neovim ' .. tostring(vim.version()))
  return true
end

---@param cmd string[]
---@return boolean # whether there is a server
local function check_server(cmd)
  if vim.fn.executable(cmd[1]) == 0 then
    vim.health.error(("'%s' cannot be run"):format(cmd[1]), {
      'Install it: :Infill install',
      "Or say where it is: require('infill').setup({ cmd = { '/path/to/infill-ls', 'serve' } })",
    })
    return false
  end
  local started, done = pcall(function()
    return vim.system({ cmd[1], '--version' }, { text = true }):wait(20000)
  end)
  if started and done.code == 0 then
    vim.health.ok(vim.trim(done.stdout) .. ' (' .. vim.fn.exepath(cmd[1]) .. ')')
  else
    local said = started and vim.trim(done.stderr or '') or done
    vim.health.error(("'%s --version' failed: %s"):format(cmd[1], said), { require('infill.install').repair(cmd[1]) })
  end
  return true
end

local function check_suggestions()
  require('vim.lsp.inline_completion')
  if not vim.tbl_get(vim.lsp, '_capability', 'all', 'inline_completion', 'active') then
    vim.health.error('This version of Neovim stores suggestions differently, so the accept keys cannot work', {
      'Update infill-ls and this plugin, or use Neovim 0.12',
    })
  end
end

local function check_clients()
  local clients = vim.lsp.get_clients({ name = require('infill').name })
  if #clients == 0 then
    vim.health.info('No server runs now; one starts with the first file it is meant for')
  end
  for _, client in ipairs(clients) do
    local answer = client:request_sync('infill/status', vim.empty_dict(), 5000)
    local status = answer and answer.result
    if not status then
      vim.health.warn('A server runs and does not answer', { ':lsp restart infill', ':Infill doctor' })
    elseif status.state == 'failed' or status.state == 'backing_off' then
      vim.health.error('The model cannot be used: ' .. status.detail, { ':Infill doctor' })
    else
      vim.health.ok(('The model, %s, is %s'):format(status.model or 'not yet loaded', status.state))
      if status.model == 'embedded' then
        vim.health.info('It is small, for a first try; :Infill models shows which better ones run here')
      end
    end
  end
end

function M.check()
  old_start('infill')
  if not check_version() then
    return
  end
  local config = vim.lsp.config[require('infill').name]
  check_suggestions()
  local is_here = check_server(require('infill').cmd or { 'infill-ls' })
  if vim.lsp.is_enabled(require('infill').name) then
    vim.health.ok('Enabled for ' .. (config.filetypes and table.concat(config.filetypes, ', ') or 'every file'))
    check_clients()
  elseif is_here then -- without a server, setup() enables nothing
    vim.health.warn('Not enabled', { "Call require('infill').setup() in your init.lua" })
  end
end

return M

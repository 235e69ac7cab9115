--- Asks a new user once about a better model than the embedded one for this machine.

local M = {}

--- Before the first look, where no model loads meanwhile: checking the machine takes some seconds of a processor.
M.wait_ms = 20000
--- Once the first model is loaded.
local READY_MS = 1000
--- Between two looks, each time twice as long.
local MOST_MS = 600000

---@return string
local function told_file()
  return vim.fs.joinpath(vim.fn.stdpath('state'), 'infill-told-of-models')
end

--- Wait until nothing is being typed or selected.
---@param run fun()
local function when_normal(run)
  if vim.api.nvim_get_mode().mode == 'n' then
    return run()
  end
  local again = vim.schedule_wrap(function()
    when_normal(run)
  end)
  vim.api.nvim_create_autocmd('ModeChanged', { pattern = '*:n', once = true, callback = again })
end

---@param client vim.lsp.Client
---@param offer { text: string, shown: string[], model: string, use?: { title: string, model: string }[] }
local function ask(client, offer)
  if vim.uv.fs_stat(told_file()) then
    return
  end
  vim.fn.mkdir(vim.fn.stdpath('state'), 'p')
  vim.fn.writefile({}, told_file())
  local prompt = { 'infill: ' .. offer.text }
  for index = 1, #offer.shown - 1 do
    table.insert(prompt, 'First, in a shell: ' .. offer.shown[index])
  end
  local choices = { 'Download it' }
  for _, other in ipairs(offer.use or {}) do
    table.insert(choices, other.title)
  end
  table.insert(choices, 'Not now')
  vim.ui.select(choices, { prompt = table.concat(prompt, ' ') }, function(_, index)
    local other = index and (offer.use or {})[index - 1]
    if index == 1 then
      require('infill.commands').pull(client, offer.model)
    elseif other then
      local use = 'put this into your configuration, and restart Neovim: '
      local setup = ("require('infill').setup({ settings = { model = %q } })"):format(other.model)
      require('infill').notify(use .. setup, vim.log.levels.INFO)
    end
  end)
end

--- The next look.
---@type uv.uv_timer_t?
local pending

--- Ask after `pause_ms`, instead of when it was planned, and again later if the server could not tell.
---@param pause_ms integer
local function look_in(pause_ms)
  if pending and not pending:is_closing() then
    pending:close()
  end
  pending = vim.defer_fn(function()
    local client = vim.lsp.get_clients({ name = require('infill').name })[1]
    if vim.uv.fs_stat(told_file()) then
      return
    end
    local later = math.min(2 * pause_ms, MOST_MS)
    local asked = client
      and client:request('infill/modelOffer', vim.empty_dict(), function(_, answer)
        local offer = type(answer) == 'table' and answer.offer
        if type(offer) == 'table' then
          when_normal(function()
            ask(client, offer)
          end)
        elseif type(answer) ~= 'table' or answer.problem ~= '' then
          look_in(later)
        end
      end)
    if not asked then
      look_in(later)
    end
  end, pause_ms)
end

--- Ask some time after the server has started, unless it was asked before. The server knows the settings.
---@param options infill.Resolved
---@param group integer
function M.offer_model(options, group)
  if options.settings.model or vim.uv.fs_stat(told_file()) then
    return
  end
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == require('infill').name then
        look_in(M.wait_ms)
        return true -- once
      end
    end,
  })
  vim.api.nvim_create_autocmd('User', {
    group = group,
    pattern = 'InfillStatus',
    callback = function(event)
      if event.data.state == 'ready' then
        look_in(READY_MS)
        return true
      end
    end,
  })
end

return M

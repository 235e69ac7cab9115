--- Asks a new user once about a better model than the embedded one for this machine.

local M = {}

--- The first model is loaded by then: checking the machine takes some seconds of a processor.
M.wait_ms = 20000
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

--- Ask after `pause_ms`, and again later if the server could not tell.
---@param pause_ms integer
local function look_in(pause_ms)
  vim.defer_fn(function()
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
end

return M

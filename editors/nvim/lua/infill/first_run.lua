--- Tells a new user once about a better model than the embedded one for this machine.

local M = {}

--- The first model is loaded by then: checking the machine takes some seconds of a processor.
M.wait_ms = 20000

---@return string
local function told_file()
  return vim.fs.joinpath(vim.fn.stdpath('state'), 'infill-told-of-models')
end

---@param offer { text: string, shown: string[], model: string, use?: { title: string, model: string }[] }
local function tell(offer)
  local lines = { offer.text }
  for index = 1, #offer.shown - 1 do
    table.insert(lines, 'First, in a shell: ' .. offer.shown[index])
  end
  table.insert(lines, 'To get it: :Infill pull ' .. offer.model)
  for _, other in ipairs(offer.use or {}) do
    table.insert(lines, ("%s: require('infill').setup({ settings = { model = '%s' } })"):format(other.title, other.model))
  end
  require('infill').notify(table.concat(lines, '\n'), vim.log.levels.INFO)
  vim.fn.mkdir(vim.fn.stdpath('state'), 'p')
  vim.fn.writefile({}, told_file())
end

local function look()
  local client = vim.lsp.get_clients({ name = require('infill').name })[1]
  if not client or vim.uv.fs_stat(told_file()) then
    return
  end
  client:request('infill/modelOffer', vim.empty_dict(), function(_, answer)
    local offer = type(answer) == 'table' and answer.offer
    if type(offer) == 'table' and not vim.uv.fs_stat(told_file()) then
      tell(offer)
    end
  end)
end

--- Show the message some time after the server has started, unless it was shown before. The server knows the settings.
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
        vim.defer_fn(look, M.wait_ms)
        return true -- once
      end
    end,
  })
end

return M

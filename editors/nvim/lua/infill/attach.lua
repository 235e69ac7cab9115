--- Configures the server in Neovim, and gives its buffers ghost text and keys.

local M = {}

---@param options infill.Resolved
---@return vim.lsp.Config
local function config_of(options)
  -- Neovim waits 0.2 s for the next key before it asks; there is no need to wait again.
  local init_options = vim.tbl_extend('keep', options.settings, { debounceMs = 0 })
  return {
    cmd = options.cmd,
    filetypes = options.filetypes,
    init_options = init_options,
    capabilities = { experimental = { infillDrafts = options.drafts, infillNextEdits = options.next_edits } },
  }
end

--- What a key does if infill has nothing to accept: the user's own mapping, else the key itself.
---@param lhs string
---@return string keys as an <expr> mapping returns them
local function otherwise(lhs)
  local wanted = vim.api.nvim_replace_termcodes(lhs, true, true, true)
  for _, map in ipairs(vim.api.nvim_get_keymap('i')) do
    if map.lhsraw == wanted or map.lhsrawalt == wanted then
      local keys
      if map.callback then
        keys = map.callback()
      elseif map.expr == 1 then
        keys = vim.api.nvim_eval(map.rhs)
      else
        vim.api.nvim_feedkeys(vim.keycode(map.rhs), map.noremap == 1 and 'in' or 'im', false)
      end
      if not keys or keys == '' then
        return ''
      end
      return map.callback and map.replace_keycodes ~= 1 and keys or vim.keycode(keys)
    end
  end
  return wanted
end

---@param buf integer
---@param keymaps table<string, infill.Key>
local function map_keys(buf, keymaps)
  for name, lhs in pairs(keymaps) do
    if lhs and require('infill')[name] then
      vim.keymap.set('i', lhs, function()
        return require('infill')[name]() and '' or otherwise(lhs)
      end, { buf = buf, expr = true, replace_keycodes = false, desc = 'infill: ' .. name:gsub('_', ' ') })
    end
  end
end

--- Start the server for every buffer it is meant for, now and later.
---@param options infill.Resolved
function M.start(options)
  local name = require('infill').name
  local group = vim.api.nvim_create_augroup('infill', {})
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if not client or client.name ~= name then
        return
      end
      map_keys(event.buf, options.keymaps)
      if options.next_edits then
        require('infill.next_edit').attach(event.buf, client, options.keymaps)
      end
      if options.suggestions then
        vim.lsp.inline_completion.enable(true, { bufnr = event.buf })
      end
    end,
  })
  require('infill.colors').define(group)
  require('infill.drafts').watch(group)
  vim.lsp.config(name, config_of(options))
  vim.lsp.enable(name)
  require('infill.first_run').offer_model(options, group)
end

return M

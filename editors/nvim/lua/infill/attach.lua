--- Configures the server in Neovim, and gives its buffers ghost text and keys.

local M = {}

---@param options infill.Resolved
---@return vim.lsp.Config
local function config_of(options)
  -- Neovim waits 0.2 s for the next key before it asks; there is no need to wait again.
  local init_options = vim.tbl_extend('keep', options.settings, { debounceMs = 0 })
  return {
    cmd = function(dispatchers, config) -- relative paths in the settings refer to the project
      local where = { cwd = config.root_dir, env = config.cmd_env, detached = config.detached }
      return vim.lsp.rpc.start(options.cmd, dispatchers, where)
    end,
    filetypes = options.filetypes,
    init_options = init_options,
    capabilities = {
      experimental = {
        infillDrafts = options.drafts,
        infillNextEdits = options.next_edits,
        infillNotifications = true,
      },
    },
  }
end

--- Do what a key does if infill has nothing to accept: an earlier mapping, else the key itself.
---@param lhs string
---@param own table? the buffer's own mapping before, as `maparg()` has it
local function otherwise(lhs, own)
  local wanted = vim.keycode(lhs)
  local map = own or vim.iter(vim.api.nvim_get_keymap('i')):find(function(each)
    return each.lhsraw == wanted or each.lhsrawalt == wanted
  end)
  if map then
    local plug = vim.keycode('<Plug>(infill-otherwise-' .. lhs:gsub('[<>]', '') .. ')')
    vim.fn.mapset('i', false, vim.tbl_extend('force', map, { lhs = plug, lhsraw = plug, lhsrawalt = plug }))
    vim.api.nvim_feedkeys(plug, 'im', false)
  else
    vim.api.nvim_feedkeys(wanted, 'in', false)
  end
end

--- The buffers' own mappings before ours, by buffer and key.
---@type table<integer, table<string, table?>>
local before = vim.defaulttable()

---@param buf integer
---@param keymaps table<string, infill.Key>
local function map_keys(buf, keymaps)
  for name, lhs in pairs(keymaps) do
    if lhs and require('infill')[name] then
      local found = vim.api.nvim_buf_call(buf, function()
        return vim.fn.maparg(lhs, 'i', false, true)
      end)
      if found.buffer == 1 and not vim.startswith(found.desc or '', 'infill: ') then
        before[buf][lhs] = found
      end
      vim.keymap.set('i', lhs, function()
        if not require('infill')[name]() then
          otherwise(lhs, rawget(before[buf], lhs))
        end
      end, { buf = buf, desc = 'infill: ' .. name:gsub('_', ' ') })
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
  require('infill.accept').watch(group)
  require('infill.drafts').watch(group)
  vim.lsp.config(name, config_of(options))
  vim.lsp.enable(name)
  require('infill.first_run').offer_model(options, group)
end

return M

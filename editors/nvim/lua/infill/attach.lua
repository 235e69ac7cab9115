--- Configures the server in Neovim, and gives its buffers ghost text and keys.

local M = {}

--- Drop suggestions for lines that went while the server was writing: Neovim raises an error for them.
---@param client vim.lsp.rpc.PublicClient
local function drop_suggestions_for_lost_lines(client)
  local request = client.request
  client.request = function(method, params, callback, ...)
    if method ~= 'textDocument/inlineCompletion' then
      return request(method, params, callback, ...)
    end
    local buf = require('infill').buf_of(params.textDocument.uri)
    return request(method, params, function(err, result, ...)
      local lines = vim.api.nvim_buf_is_valid(buf) and vim.api.nvim_buf_line_count(buf) or 0
      local items = vim.iter(result and (result.items or result) or {}):filter(function(item)
        return not item.range or item.range['end'].line < lines
      end)
      callback(err, result and items:totable(), ...)
    end, ...)
  end
end

---@param options infill.Resolved
---@return vim.lsp.Config
local function config_of(options)
  -- Neovim waits 0.2 s for the next key before it asks; there is no need to wait again.
  local init_options = vim.tbl_extend('keep', options.settings, { debounceMs = 0 })
  return {
    cmd = function(dispatchers, config) -- relative paths in the settings refer to the project
      local where = { cwd = config.root_dir, env = config.cmd_env, detached = config.detached }
      local started, client = pcall(vim.lsp.rpc.start, options.cmd, dispatchers, where)
      if not started then
        local repair = require('infill.install').repair(options.cmd[1])
        vim.schedule(function() -- Neovim's own message would wait for Enter
          require('infill').notify(('%s does not start: %s'):format(options.cmd[1], repair))
        end)
        error('infill: the server does not start', 0)
      end
      drop_suggestions_for_lost_lines(client)
      return client
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

--- The buffers' own mappings before ours, by buffer and key.
---@type table<integer, table<string, table?>>
local before = vim.defaulttable()

--- What else a key is mapped to.
---@param buf integer
---@param lhs string
---@return table? as `maparg()` has it
local function other_map(buf, lhs)
  local wanted = vim.keycode(lhs)
  return rawget(before[buf], lhs) or vim.iter(vim.api.nvim_get_keymap('i')):find(function(map)
    return map.lhsraw == wanted or map.lhsrawalt == wanted
  end)
end

--- Whether a mapping is Neovim's own, which jumps in snippets.
---@param map table
local function is_neovims(map)
  return vim.startswith(map.desc or '', 'vim.snippet.jump')
end

--- The accept key, or false.
---@type infill.Key?
local accept_key

--- Whether the accept key is mapped by the user, too.
---@param buf integer
---@return boolean
function M.has_users_accept(buf)
  local map = accept_key and other_map(buf, accept_key)
  return map ~= nil and map ~= false and not is_neovims(map)
end

local space = vim.api.nvim_create_namespace('infill.otherwise')
local unmapped ---@type string? the key that stands for itself when it comes next

--- Do what a key does if infill has nothing to accept: the other mapping, or the key itself, as if ours was not there.
---@param buf integer
---@param lhs string
local function otherwise(buf, lhs)
  local map = other_map(buf, lhs)
  if not map or is_neovims(map) and not vim.snippet.active() then
    unmapped = lhs
    return vim.api.nvim_feedkeys(vim.keycode(lhs), 'im', false)
  elseif map.noremap == 0 then -- it may begin with its own key
    unmapped = lhs
    vim.on_key(function()
      unmapped = nil
      vim.on_key(nil, space)
    end, space)
  end
  local plug = vim.keycode('<Plug>(infill-otherwise-' .. lhs:gsub('[<>]', '') .. ')')
  vim.fn.mapset('i', false, vim.tbl_extend('force', map, { lhs = plug, lhsraw = plug, lhsrawalt = plug }))
  vim.api.nvim_feedkeys(plug, 'im', false)
end

--- Have a key of the server's buffers do `name`, or otherwise what it did before.
---@param buf integer
---@param name string
---@param lhs string
local function map_key(buf, name, lhs)
  local desc = 'infill: ' .. name:gsub('_', ' ')
  local found = vim.api.nvim_buf_call(buf, function()
    return vim.fn.maparg(lhs, 'i', false, true)
  end)
  if found.buffer == 1 and found.desc ~= desc then
    before[buf][lhs] = found
  end
  local plug = ('<Plug>(infill-%s)'):format(name)
  vim.keymap.set('i', plug, function()
    if not require('infill')[name]() then
      otherwise(buf, lhs)
    end
  end, { buf = buf, desc = desc })
  -- Neovim reads ahead, and an expression does not see what was typed just before; so it does not decide.
  vim.keymap.set('i', lhs, function()
    local is_itself = unmapped == lhs
    unmapped = nil
    return is_itself and lhs or plug
  end, { buf = buf, expr = true, remap = true, desc = desc })
end

--- Runs until the end of the snooze.
---@type uv.uv_timer_t?
local snooze

--- Minutes until ghost text and next edits come back by themselves, rounded up; 0 when they are not snoozed.
---@return integer
function M.snoozed()
  return snooze and math.ceil(snooze:get_due_in() / 60000) or 0
end

--- Whether Neovim asks the server for ghost text in a buffer: not during a snooze. Other servers are still asked.
---@param buf integer
---@param client vim.lsp.Client
function M.apply_snooze(buf, client)
  local asker = vim.tbl_get(vim.lsp._capability, 'all', 'inline_completion', 'active', buf)
  if not asker then
    return
  elseif not snooze and not asker.client_state[client.id] then
    asker:on_attach(client.id)
    if buf == vim.api.nvim_get_current_buf() and vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
      asker:automatic_request()
    end
  elseif snooze and asker.client_state[client.id] then
    asker:abort()
    asker:on_detach(client.id)
  end
end

local function apply_everywhere()
  for _, client in ipairs(vim.lsp.get_clients({ name = require('infill').name })) do
    for buf in pairs(client.attached_buffers) do
      M.apply_snooze(buf, client)
      require('infill.next_edit').clear(buf)
    end
  end
  vim.cmd.redrawstatus({ bang = true })
end

--- End the snooze.
function M.resume()
  if snooze then
    snooze:close()
    snooze = nil
    apply_everywhere()
  end
end

--- For some minutes ask for no ghost text and no next edit. The server is not told: what the user asks for works.
---@param minutes number
function M.snooze(minutes)
  M.resume()
  snooze = assert(vim.uv.new_timer())
  snooze:start(math.ceil(minutes * 60000), 0, vim.schedule_wrap(M.resume))
  apply_everywhere()
end

--- After this long in one place the cursor rests.
local rest_ms = 100

--- From now on, tell the server where the cursor rests: it reads that place before anything is typed there.
---@param group integer the group of autocommands
local function watch_cursor(group)
  local timer = assert(vim.uv.new_timer())
  local function rest()
    local client = vim.lsp.get_clients({ bufnr = 0, name = require('infill').name })[1]
    if client and not snooze then
      client:notify('infill/didRest', vim.lsp.util.make_position_params(0, client.offset_encoding))
    end
  end
  vim.api.nvim_create_autocmd({ 'BufEnter', 'CursorMoved', 'CursorMovedI' }, {
    group = group,
    callback = function()
      timer:start(rest_ms, 0, vim.schedule_wrap(rest))
    end,
  })
end

--- Start the server for every buffer it is meant for, now and later.
---@param options infill.Resolved
function M.start(options)
  local name = require('infill').name
  accept_key = options.keymaps.accept
  local group = vim.api.nvim_create_augroup('infill', {})
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if not client or client.name ~= name then
        return
      end
      for name, lhs in pairs(options.keymaps) do
        if lhs and require('infill')[name] then
          map_key(event.buf, name, lhs)
        end
      end
      if options.next_edits then
        require('infill.next_edit').attach(event.buf, client, options.keymaps)
      end
      if options.suggestions then
        vim.lsp.inline_completion.enable(true, { bufnr = event.buf })
        M.apply_snooze(event.buf, client)
      end
    end,
  })
  watch_cursor(group)
  require('infill.colors').define(group)
  require('infill.accept').watch(group)
  require('infill.drafts').watch(group)
  require('infill.macro').watch(group)
  vim.lsp.config(name, config_of(options))
  vim.lsp.enable(name)
  require('infill.first_run').offer_model(options, group)
end

return M

--- The next edit: what no longer fits after a change, one place after the other. A key jumps there, then accepts it.
---
--- Old and new text are drawn, and the buffer does not change until the edit is accepted. Any other edit, and ghost
--- text, remove the drawing. The normal mode keys are mapped only while an edit is visible.

local M = {}

M.namespace = vim.api.nvim_create_namespace('infill.next_edit')

local ASK, SUGGESTION = 'textDocument/copilotInlineEdit', 'textDocument/inlineCompletion'

---@class infill.NextEdit an edit of the server's answer
---@field text string
---@field range lsp.Range
---@field textDocument { uri: string, version: integer }
---@field command lsp.Command

---@class infill.Offer
---@field edit infill.NextEdit
---@field client_id integer
---@field tick integer the buffer's `changedtick` when it was drawn
---@field place infill.Place
---@field mapped table<string, table> what the keys were mapped to before, by key

---@type table<integer, infill.Offer?>
local offers = {}
---@type table<integer, integer?> the request that runs, by buffer
local asked = {}
---@type table<integer, boolean?> whether the cursor goes to the next place by itself
local follows = {}
---@type table<string, infill.Key> the keys of normal mode
local keys = {}

--- The visible offer in `buf`; nil if there is none, if the text has changed since, or may not change now.
---@param buf integer
---@return infill.Offer?
local function current(buf)
  local offer = offers[buf]
  if offer and offer.tick == vim.api.nvim_buf_get_changedtick(buf) and vim.bo[buf].modifiable then
    return offer
  end
end

---@param buf integer
---@param offer infill.Offer
local function map(buf, offer)
  for name, lhs in pairs(keys) do
    if lhs then
      offer.mapped[lhs] = vim.api.nvim_buf_call(buf, function()
        return vim.fn.maparg(lhs, 'n', false, true)
      end)
      local act = name == 'next_edit' and M.accept or M.dismiss
      vim.keymap.set('n', lhs, act, { buf = buf, desc = 'infill: ' .. name:gsub('_', ' ') })
    end
  end
end

--- Remove the drawing, and restore the keys.
---@param buf integer
function M.clear(buf)
  local offer = offers[buf]
  offers[buf] = nil
  if not offer or not vim.api.nvim_buf_is_valid(buf) then
    return
  end
  vim.api.nvim_buf_clear_namespace(buf, M.namespace, 0, -1)
  for lhs, before in pairs(offer.mapped) do
    pcall(vim.keymap.del, 'n', lhs, { buf = buf })
    if before.buffer == 1 then
      vim.api.nvim_buf_call(buf, function()
        vim.fn.mapset('n', false, before)
      end)
    end
  end
end

--- Draw the old text as deleted, and the new text behind it; a hint at the cursor if that is out of sight.
---@param buf integer
---@param offer infill.Offer
local function draw(buf, offer)
  local place, lines = offer.place, vim.split(offer.edit.text, '\n', { plain = true })
  vim.api.nvim_buf_set_extmark(buf, M.namespace, place.row, place.col, {
    end_row = place.end_row,
    end_col = place.end_col,
    hl_group = 'InfillOld',
  })
  vim.api.nvim_buf_set_extmark(buf, M.namespace, place.end_row, place.end_col, {
    virt_text = { { lines[1], 'InfillNew' } },
    virt_text_pos = 'inline',
    virt_lines = #lines > 1 and vim.iter(lines):skip(1):map(function(line)
      return { { line, 'InfillNew' } }
    end):totable() or nil,
  })
  if place.row + 1 < vim.fn.line('w0') or place.row + 1 > vim.fn.line('w$') then
    local row = vim.api.nvim_win_get_cursor(0)[1] - 1
    local hint = (' line %d: %s'):format(place.row + 1, vim.trim(offer.edit.text):match('^[^\n]*'))
    vim.api.nvim_buf_set_extmark(buf, M.namespace, row, 0, { virt_text = { { hint, 'InfillNew' } } })
  end
end

---@param offer infill.Offer
local function jump(offer)
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_cursor(0, { offer.place.row + 1, offer.place.col })
  vim.cmd('normal! zv')
end

---@param buf integer
---@param client vim.lsp.Client
---@param edit infill.NextEdit
local function show(buf, client, edit)
  M.clear(buf)
  local place = require('infill.drafts').place_of(buf, edit.range, client.offset_encoding)
  if not place then
    return
  end
  local tick = vim.api.nvim_buf_get_changedtick(buf)
  local offer = { edit = edit, client_id = client.id, tick = tick, place = place, mapped = {} }
  offers[buf] = offer
  if follows[buf] then
    jump(offer)
  end
  draw(buf, offer)
  map(buf, offer)
  client:notify('textDocument/didShowInlineEdit', { item = edit }, buf)
end

--- Whether an edit may be shown: never beside ghost text or a list of completions.
---@param buf integer
local function is_free(buf)
  return vim.api.nvim_get_current_buf() == buf and vim.fn.pumvisible() == 0 and not require('infill.accept').is_shown(buf)
end

--- Ask the server, which answers once the user pauses.
---@param buf integer
---@param client vim.lsp.Client
local function ask(buf, client)
  M.clear(buf)
  if asked[buf] then
    client:cancel_request(asked[buf])
  end
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.textDocument.version = vim.lsp.util.buf_versions[buf]
  params.context = { triggerKind = 2 }
  local tick, follow = vim.api.nvim_buf_get_changedtick(buf), follows[buf]
  local _, request = client:request(ASK, params, function(_, result, context)
    if asked[buf] == context.request_id then
      asked[buf] = nil
    end
    local edit = vim.tbl_get(result or {}, 'edits', 1)
    if not vim.api.nvim_buf_is_valid(buf) or tick ~= vim.api.nvim_buf_get_changedtick(buf) then
      return
    end
    local is_snoozed = require('infill.attach').snoozed() > 0
    if edit and edit.textDocument.version == vim.lsp.util.buf_versions[buf] and is_free(buf) and not is_snoozed then
      show(buf, client, edit)
    end
    follows[buf] = nil
  end, buf)
  asked[buf], follows[buf] = request, follow
end

--- Insert the offer into the buffer: one change, which one undo reverts.
---@param buf integer
---@param offer infill.Offer
local function take(buf, offer)
  local client = vim.lsp.get_client_by_id(offer.client_id)
  if not client then
    return M.clear(buf)
  end
  local place, lines = offer.place, vim.split(offer.edit.text, '\n', { plain = true })
  vim.bo[buf].undolevels = vim.bo[buf].undolevels -- what was typed before is undone by itself
  vim.api.nvim_buf_set_text(buf, place.row, place.col, place.end_row, place.end_col, lines)
  vim.bo[buf].undolevels = vim.bo[buf].undolevels
  M.clear(buf)
  local column = #lines[#lines] + (#lines == 1 and place.col or 0)
  vim.api.nvim_win_set_cursor(0, { place.row + #lines, column })
  client:exec_cmd(offer.edit.command, { bufnr = buf })
  follows[buf] = true
  ask(buf, client)
end

--- Call `act` with the visible edit.
---@param act fun(buf: integer, offer: infill.Offer)
---@return boolean # false when there is none
local function with_current(act)
  local buf = vim.api.nvim_get_current_buf()
  local offer = current(buf)
  if offer then
    require('infill.accept').now(function()
      if current(buf) == offer and vim.api.nvim_get_current_buf() == buf then
        act(buf, offer)
      end
    end)
  end
  return offer ~= nil
end

--- Jump to the visible edit, or accept it if the cursor is on its line.
---@return boolean # false when there is none
function M.accept()
  return with_current(function(buf, offer)
    if vim.api.nvim_win_get_cursor(0)[1] - 1 == offer.place.row then
      take(buf, offer)
    else
      jump(offer)
    end
  end)
end

--- Dismiss the edit; it does not come back.
---@return boolean # false when there is none
function M.dismiss()
  return with_current(function(buf, offer)
    require('infill.accept').reject(buf, { client_id = offer.client_id, command = offer.edit.command })
    M.clear(buf)
  end)
end

--- Offer edits in one of the server's buffers.
---@param buf integer
---@param client vim.lsp.Client
---@param keymaps table<string, infill.Key>
function M.attach(buf, client, keymaps)
  keys = { next_edit = keymaps.next_edit, next_edit_dismiss = keymaps.next_edit_dismiss }
  local group = vim.api.nvim_create_augroup(('infill.next_edit:%d'):format(buf), {})
  local function on(events, act)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = buf, callback = act })
  end
  local function look()
    local is_here = buf == vim.api.nvim_get_current_buf()
    if is_here and not current(buf) and not client:is_stopped() and require('infill.attach').snoozed() == 0 then
      ask(buf, client)
    end
  end
  on({ 'TextChanged', 'TextChangedI', 'InsertLeave', 'BufEnter' }, look)
  vim.schedule(look) -- something may follow here from a change in another file
  on({ 'BufLeave', 'LspDetach' }, function()
    follows[buf] = nil
    M.clear(buf)
  end)
  on('LspRequest', function(event)
    if event.data.request.method == SUGGESTION and event.data.request.type == 'complete' then
      vim.schedule(function()
        if not is_free(buf) then
          M.clear(buf)
        end
      end)
    end
  end)
end

return M

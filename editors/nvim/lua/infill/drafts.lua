--- Live drafts: the model's text for a hole after each step, drawn over the hole until the answer arrives.
---
--- The buffer does not change. A draft of an outdated text is not drawn; the answer, an edit and leaving insert mode
--- remove the drawing. Each draft drawn raises `User InfillDraft`.

local chunks = require('infill.chunks')

local M = {}

M.namespace = vim.api.nvim_create_namespace('infill.drafts')

---@class infill.Hole
---@field range lsp.Range
---@field text string
---@field pieces string[]
---@field confidences number[]

---@class infill.Draft the params of `infill/draft`
---@field uri string
---@field version integer
---@field kind 'inline'|'action'
---@field step integer
---@field maxSteps integer
---@field holes infill.Hole[]

---@class infill.Place a hole in the buffer: rows from 0, columns in bytes
---@field row integer
---@field col integer
---@field end_row integer
---@field end_col integer

local answers = {
  ['textDocument/inlineCompletion'] = true,
  ['textDocument/completion'] = true,
  ['workspace/executeCommand'] = true,
  ['codeAction/resolve'] = true,
}

--- Where a range of the protocol is in a buffer; nil where the buffer has no such place.
---@param buf integer
---@param range lsp.Range
---@param encoding string
---@return infill.Place?
function M.place_of(buf, range, encoding)
  local function byte(position)
    local line = vim.api.nvim_buf_get_lines(buf, position.line, position.line + 1, false)[1]
    return line and vim.str_byteindex(line, encoding, position.character, false)
  end
  local col, end_col = byte(range.start), byte(range['end'])
  if col and end_col then
    return { row = range.start.line, col = col, end_row = range['end'].line, end_col = end_col }
  end
end

--- The cursor as row and column from 0, where `buf` is in the current window.
local function cursor_in(buf)
  if vim.api.nvim_get_current_buf() == buf then
    local row, col = unpack(vim.api.nvim_win_get_cursor(0))
    return row - 1, col
  end
end

--- The typed part of a suggestion is in the buffer: begin at the cursor, without it.
---@param buf integer
---@param place infill.Place
---@param text string
---@return integer bytes of `text` that are typed
local function begin_at_cursor(buf, place, text)
  local row, col = cursor_in(buf)
  if row ~= place.row or not col or col <= place.col then
    return 0
  end
  local typed = vim.api.nvim_buf_get_text(buf, row, place.col, row, col, {})[1]
  if not vim.startswith(text, typed) then
    return 0
  end
  place.col = col
  return #typed
end

--- Draw lines over the text of a hole: each over its own, the rest of it behind that, more lines below.
---@param buf integer
---@param place infill.Place
---@param lines infill.Chunk[][]
local function draw(buf, place, lines)
  local covered = vim.api.nvim_buf_get_lines(buf, place.row, place.end_row + 1, false)
  for index, text in ipairs(covered) do
    local row, last = place.row + index - 1, index == #covered
    local from, to = index == 1 and place.col or 0, last and place.end_col or #text
    local over, behind = chunks.split(lines[index] or {}, vim.api.nvim_strwidth(text:sub(from + 1, to)))
    local mark = { hl_mode = 'combine', strict = false }
    if #over > 0 then
      mark.virt_text, mark.virt_text_pos = over, 'overlay'
      vim.api.nvim_buf_set_extmark(buf, M.namespace, row, from, mark)
    end
    if #behind > 0 then
      mark.virt_text, mark.virt_text_pos = behind, 'inline'
      vim.api.nvim_buf_set_extmark(buf, M.namespace, row, to, mark)
    end
  end
  local below = vim.list_slice(lines, #covered + 1)
  if #below > 0 then
    vim.api.nvim_buf_set_extmark(buf, M.namespace, place.end_row, 0, { virt_lines = below })
  end
end

--- Remove the drawing.
---@param buf integer
function M.clear(buf)
  if vim.api.nvim_buf_is_valid(buf) then
    vim.api.nvim_buf_clear_namespace(buf, M.namespace, 0, -1)
  end
end

---@param buf integer
---@param draft infill.Draft
---@param encoding string
local function show(buf, draft, encoding)
  M.clear(buf)
  for _, hole in ipairs(draft.holes) do
    local place = M.place_of(buf, hole.range, encoding)
    if place then
      local lines = chunks.lines(hole.pieces, hole.confidences, vim.bo[buf].tabstop)
      if draft.kind == 'inline' then
        lines[1] = chunks.drop(lines[1], begin_at_cursor(buf, place, hole.text))
      end
      draw(buf, place, lines)
    end
  end
end

--- The handler of `infill/draft`.
---@param draft infill.Draft
---@param context lsp.HandlerContext
function M.on_draft(_, draft, context)
  local buf, client = require('infill').buf_of(draft.uri), vim.lsp.get_client_by_id(context.client_id)
  if not client or not vim.api.nvim_buf_is_loaded(buf) or vim.lsp.util.buf_versions[buf] ~= draft.version then
    return
  end
  local typing = vim.startswith(vim.api.nvim_get_mode().mode, 'i')
  if draft.kind == 'inline' and (not typing or require('infill.accept').is_shown(buf)) then
    return
  end
  show(buf, draft, client.offset_encoding)
  vim.api.nvim_exec_autocmds('User', {
    pattern = 'InfillDraft',
    modeline = false,
    data = { buf = buf, kind = draft.kind, step = draft.step, max_steps = draft.maxSteps },
  })
end

--- From now on, remove the drawing when it is answered or outdated.
---@param group integer the group of autocommands
function M.watch(group)
  vim.api.nvim_create_autocmd('LspRequest', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      local request = event.data.request
      if client and client.name == require('infill').name and request.type ~= 'pending' and answers[request.method] then
        M.clear(request.bufnr)
      end
    end,
  })
  vim.api.nvim_create_autocmd({ 'TextChanged', 'TextChangedI', 'TextChangedP', 'InsertLeave', 'CursorMovedI' }, {
    group = group,
    callback = function(event)
      M.clear(event.buf)
    end,
  })
end

return M

vim.lsp.config('infill', { cmd = { 'infill-ls', 'serve' }, filetypes = { 'python' } })
vim.lsp.enable('infill')
vim.lsp.inline_completion.enable()

-- Neovim raises an error for a suggestion whose line went while the server was writing: drop it.
local completor = vim.lsp._capability.all.inline_completion
local handler = completor.handler
function completor:handler(err, result, context)
  local lines = vim.api.nvim_buf_is_valid(context.bufnr) and vim.api.nvim_buf_line_count(context.bufnr) or 0
  local items = vim.iter(result and (result.items or result) or {}):filter(function(item)
    return not item.range or item.range['end'].line < lines
  end)
  handler(self, err, result and items:totable(), context)
end

-- Neovim shows and inserts a suggestion even if its line has changed since: fit it to the line, or drop it.
local ghosts = vim.api.nvim_create_namespace('nvim.lsp.inline_completion')
local function drawn_row() -- which moves with its line
  local mark = vim.api.nvim_buf_get_extmarks(0, ghosts, 0, -1, { limit = 1 })[1]
  return mark and mark[2]
end
local function fitted(item, drawn)
  local head, behind = unpack(vim.tbl_get(item, 'command', 'arguments') or {}, 3, 4)
  if not head then return item end -- another server's
  local row, col, _, end_col = item.range:to_extmark()
  row = drawn or row
  local at, line = vim.api.nvim_win_get_cursor(0), vim.api.nvim_get_current_line()
  local now, whole = line:sub(1, at[2]), head:sub(1, col) .. item.insert_text
  local is_begun = #now >= col and #now < #whole and vim.startswith(whole, now)
  local has_place = at[1] == row + 1 and line:sub(at[2] + 1) == behind and vim.bo.modifiable
  local is_menus = vim.fn.pumvisible() == 1 and vim.fn.complete_info({ 'selected' }).selected >= 0 -- whose Tab is, then
  if has_place and (is_begun or now == head) and not is_menus and not vim.fn.mode():find('^R') then
    local from = is_begun and #now or col
    local range = vim.range(0, row, from, row, at[2] + end_col - #head)
    return vim.tbl_extend('force', item, { insert_text = whole:sub(from + 1), range = range })
  end
end
local events = { 'CursorMovedI', 'TextChangedI', 'TextChangedP', 'WinLeave', 'LspRequest', 'ModeChanged' }
vim.api.nvim_create_autocmd(vim.list_extend(events, { 'CompleteChanged', 'CompleteDone' }), {
  callback = vim.schedule_wrap(function(event)
    local shown = vim.lsp._capability.all.inline_completion.active[event.buf]
    local is_here = event.event ~= 'WinLeave' and event.buf == vim.api.nvim_get_current_buf()
    if shown and shown.current and not (is_here and fitted(shown.current, drawn_row())) then
      shown.current = nil
      shown:hide()
    elseif shown and not shown.current and event.event == 'CompleteDone' and vim.fn.mode() == 'i' then
      shown:automatic_request()
    end
  end),
})
local function shown()
  local item = vim.tbl_get(vim.lsp._capability.all.inline_completion.active, vim.api.nvim_get_current_buf(), 'current')
  return item and fitted(item, drawn_row())
end
function InfillTake()
  local item, done = shown(), nil
  vim.lsp.inline_completion.get({
    on_accept = function()
      if not item or not vim.tbl_get(item, 'command', 'arguments', 3) then return item end
      local row, col, _, end_col = item.range:to_extmark()
      vim.api.nvim_buf_set_text(0, row, col, row, end_col, {})
      vim.api.nvim_win_set_cursor(0, { row + 1, col })
      vim.api.nvim_paste(item.insert_text, false, -1) -- which `.` and a count repeat
      local at = vim.api.nvim_win_get_cursor(0)
      local range = vim.range(0, at[1] - 1, at[2], at[1] - 1, at[2])
      return vim.tbl_extend('force', item, { insert_text = '', range = range })
    end,
  })
  vim.schedule(function() done = true end) -- get() puts its work off, too; the next key comes after it
  vim.wait(1000, function() return done end)
end
vim.keymap.set('i', '<Tab>', function()
  local jump = vim.snippet.active({ direction = 1 }) and '<Cmd>lua vim.snippet.jump(1)<CR>'
  -- <C-g>u closes the popup menu, and what comes is undone by itself; <C-]> expands an abbreviation
  local keys = shown() and '<C-g>u<Cmd>lua InfillTake()<CR><C-g>u' or jump or '<C-]><Tab>'
  vim.api.nvim_feedkeys(vim.keycode(keys), 'in', false)
end)

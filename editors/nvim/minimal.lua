vim.lsp.config('infill', { cmd = { 'infill-ls', 'serve' }, filetypes = { 'python' } })
vim.lsp.enable('infill')
vim.lsp.inline_completion.enable()

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
  local fits = now == head or #now >= col and #now < #whole and vim.startswith(whole, now)
  if fits and at[1] == row + 1 and line:sub(at[2] + 1) == behind and vim.bo.modifiable then
    return vim.tbl_extend('force', item, { range = vim.range(0, row, col, row, at[2] + end_col - #head) })
  end
end
vim.api.nvim_create_autocmd({ 'CursorMovedI', 'TextChangedI', 'TextChangedP', 'WinLeave', 'LspRequest' }, {
  callback = vim.schedule_wrap(function(event)
    local shown = vim.lsp._capability.all.inline_completion.active[event.buf]
    local is_here = event.event ~= 'WinLeave' and event.buf == vim.api.nvim_get_current_buf()
    if shown and shown.current and not (is_here and fitted(shown.current, drawn_row())) then
      shown.current = nil
      shown:hide()
    end
  end),
})
vim.keymap.set('i', '<Tab>', function()
  local item, done
  local drawn = drawn_row()
  vim.lsp.inline_completion.get({
    on_accept = function(found)
      item = fitted(found, drawn)
      return item
    end,
  })
  vim.schedule(function() done = true end) -- get() puts its work off, too; the next key comes after it
  vim.wait(1000, function() return done end)
  if not item then
    local jump = vim.snippet.active({ direction = 1 }) and '<Cmd>lua vim.snippet.jump(1)<CR>'
    vim.api.nvim_feedkeys(vim.keycode(jump or '<Tab>'), 'in', false)
  end
end)

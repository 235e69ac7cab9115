-- Notes the text, the cursor and what is shown before Neovim handles each key.
local function text(buf)
  return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, true), '\n') .. '\n'
end
local function marks(name)
  local space = vim.api.nvim_get_namespaces()[name]
  return space and vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true }) or {}
end
local function ghost()
  local mark = marks('nvim.lsp.inline_completion')[1]
  if not mark then return '', 0 end
  local col = vim.api.nvim_win_get_cursor(0)[2]
  local same = vim.api.nvim_get_current_line():sub(col + 1, mark[3]) -- what stands there already is not drawn again
  local lines = { same .. mark[4].virt_text[1][1] }
  for _, line in ipairs(mark[4].virt_lines or {}) do lines[#lines + 1] = line[1][1] end
  local item = vim.lsp._capability.all.inline_completion.active[vim.api.nvim_get_current_buf()].current
  return table.concat(lines, '\n'), item.range.end_col - #item.command.arguments[3]
end
local function offer()
  local old, new = unpack(marks('infill.next_edit'))
  if old and new then
    return { old[2], old[3], old[4].end_row, old[4].end_col, new[4].virt_text[1][1] }
  end
end
seen = {}
local is_command = false
vim.on_key(function(_, typed)
  if typed == '' then return end
  local key = vim.fn.keytrans(typed)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  local shown, tail = ghost()
  if is_command then col = -1 end
  is_command = key == '<C-O>'
  local was = { key = key, text = text(0), row = row - 1, col = col, ghost = shown, tail = tail, offer = offer() }
  table.insert(seen, was)
end)
function from_outside(number)
  local line, at, gone = unpack(({ { 'import re', 0, 0 }, { '# noted', 4, 0 }, { 'import sys, io', 0, 1 } })[number])
  local before = text(0)
  vim.api.nvim_buf_set_lines(0, at, at + gone, false, { line })
  table.insert(seen, { key = '(outside)', text = before, after = text(0) })
end
function save()
  local before = text(0)
  vim.cmd('silent write')
  table.insert(seen, { key = '(save)', text = before, after = text(0) })
end
vim.api.nvim_create_autocmd('BufWritePre', { callback = function() -- a formatter
  local cursor = vim.api.nvim_win_get_cursor(0)
  for row, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, true)) do
    local bare = line:gsub('%s+$', '')
    if bare ~= line then vim.api.nvim_buf_set_lines(0, row - 1, row, true, { bare }) end
  end
  pcall(vim.api.nvim_win_set_cursor, 0, cursor)
end })

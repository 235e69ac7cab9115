vim.lsp.config('infill', { cmd = { 'infill-ls', 'serve' }, filetypes = { 'python' } })
vim.lsp.enable('infill')
vim.lsp.inline_completion.enable()
vim.keymap.set('i', '<Tab>', function()
  if not vim.lsp.inline_completion.get() then return '<Tab>' end
end, { expr = true })

--- Neovim's configuration for the server; `require('infill').setup()` adds the user's options.

---@type vim.lsp.Config
return {
  cmd = { 'infill-ls', 'serve' },
  root_dir = function(buf, on_dir)
    if vim.bo[buf].buftype ~= 'help' then -- Neovim passes these too
      on_dir(vim.fs.root(buf, { 'infill-ls.toml', '.git' }))
    end
  end,
  capabilities = { experimental = { infillDrafts = true, infillNotifications = true } },
  handlers = {
    ['infill/draft'] = function(...)
      return require('infill.drafts').on_draft(...)
    end,
    ['infill/refined'] = function(...)
      return require('infill.accept').on_refined(...)
    end,
    ['infill/didChangeStatus'] = function(...)
      return require('infill.status').on_change(...)
    end,
    ['window/showMessage'] = function(_, params)
      local message = params.message:gsub('^infill%-ls: ', '')
      require('infill').notify(message, 5 - params.type) -- an error is 1, and in Neovim 4
    end,
  },
}

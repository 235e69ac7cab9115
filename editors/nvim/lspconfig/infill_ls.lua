---@brief
---
--- https://github.com/infill-ls/infill-ls
---
--- Fills holes in code with a model on this machine. Install it in a clone with `uv tool install --torch-backend auto .`,
--- and pull the model that `infill-ls models` calls the best here, such as `infill-ls models pull qwen2.5-coder-0.5b`.
---
--- Ghost text needs Neovim 0.12:
---
--- ```lua
--- vim.lsp.enable('infill_ls')
--- vim.lsp.inline_completion.enable()
--- vim.keymap.set('i', '<Tab>', function()
---   return vim.lsp.inline_completion.get() and '' or '<Tab>'
--- end, { expr = true })
--- ```
---
--- Without `filetypes` it fills every file whose language it knows; it works without a project, too.

---@type vim.lsp.Config
return {
  -- In the project's folder, to which relative paths in its settings refer.
  cmd = function(dispatchers, config)
    return vim.lsp.rpc.start({ 'infill-ls', 'serve' }, dispatchers, {
      cwd = config.root_dir,
      env = config.cmd_env,
      detached = config.detached,
    })
  end,
  root_markers = { 'infill-ls.toml', '.git' },
}

--- Defines `:Infill`. Nothing else happens until `require('infill').setup()` is called.

if vim.g.loaded_infill then
  return
end
vim.g.loaded_infill = true

vim.api.nvim_create_user_command('Infill', function(args)
  require('infill.commands').run(args)
end, {
  desc = 'Fill holes in code; see :help :Infill',
  nargs = '*',
  range = true,
  complete = function(lead, line)
    return require('infill.commands').complete(lead, line)
  end,
})

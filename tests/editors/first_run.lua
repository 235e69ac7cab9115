-- How a new user is asked for a model, noted instead of shown.
require('infill.first_run').wait_ms = 100
told_file = vim.fs.joinpath(vim.fn.stdpath('state'), 'infill-told-of-models')
asked, answers = {}, 0
vim.ui.select = function(choices, options, chosen)
  table.insert(asked, { vim.api.nvim_get_mode().mode, options.prompt, choices }); chosen(nil, nil)
end
require('infill').setup({})
vim.api.nvim_create_autocmd('LspRequest', { callback = function(event)
  local request = event.data.request
  if request.method == 'infill/modelOffer' and request.type == 'complete' then answers = answers + 1 end
end })

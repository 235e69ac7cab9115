--- Ghost text and fills from infill-ls. The user's functions; the rest of the plugin is in the modules beside this one.

local M = {}

M.name = 'infill'

--- Shows a message that is wider than the screen.
---@type integer?
local window

--- Show the user a message. Neovim's own `vim.notify` would wait for Enter behind one that is wider than the screen, a
--- second one, or one at its start; what does not fit is shown whole in a window until the cursor moves.
---@param message string
---@param level? integer one of `vim.log.levels`; a warning by default
function M.notify(message, level)
  local text = 'infill: ' .. message:gsub('%s*\n%s*', ' ')
  local source = debug.getinfo(vim.notify, 'S').source -- its compiled modules do not know theirs
  local is_neovims = source == '?' or source:find('vim/_core/editor.lua', 1, true) ~= nil
  if is_neovims and vim.v.vim_did_enter == 0 then
    local again = vim.schedule_wrap(function()
      M.notify(message, level)
    end)
    vim.api.nvim_create_autocmd('VimEnter', { once = true, callback = again })
    return
  end
  if window and vim.api.nvim_win_is_valid(window) then
    vim.api.nvim_win_close(window, true)
  end
  if is_neovims then
    vim.cmd.redraw()
  end
  vim.notify(text, level or vim.log.levels.WARN, { _truncate = true }) -- `:messages` has it whole
  if is_neovims and vim.fn.strdisplaywidth(text) > vim.o.columns then
    _, window = vim.lsp.util.open_floating_preview({ text }, '', { focusable = false })
    vim.api.nvim_win_set_height(window, vim.api.nvim_win_text_height(window, {}).all)
  end
end

--- Why the plugin cannot run in this Neovim; nil when it can. Runs in old ones too.
---@return string?
function M.too_old()
  if vim.fn.has('nvim-0.12') == 0 then
    local version = vim.version()
    return ('this needs Neovim 0.12 or newer, and this is %d.%d; older ones have no inline completion'):format(
      version.major,
      version.minor
    )
  end
end

--- Why the server cannot be started; nil when it can.
---@param cmd string[]
---@return string?
function M.not_found(cmd)
  if vim.fn.executable(cmd[1]) == 1 then
    return nil
  elseif M.is_default(cmd) then
    return 'the server is not here yet: run :Infill install (1.3 GB)'
  end
  return ("there is no server '%s', which setup({ cmd = … }) names; without `cmd`, :Infill install gets one"):format(cmd[1])
end

--- Whether the user has named no server.
---@param cmd string[]
---@return boolean
function M.is_default(cmd)
  return vim.deep_equal(cmd, require('infill.options').defaults.cmd)
end

--- The buffer of a document: the current one if it may be, since buffers without a name share a URI.
---@param uri string
---@return integer
function M.buf_of(uri)
  local current = vim.api.nvim_get_current_buf()
  return vim.uri_from_bufnr(current) == uri and current or vim.uri_to_bufnr(uri)
end

--- Have `:help infill` find its page: a folder on 'runtimepath' has no tags, unless a plugin manager makes them.
local function index_help()
  local doc = vim.fs.normalize(vim.fs.joinpath(vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2)), '../../doc'))
  local page, tags = vim.uv.fs_stat(doc .. '/infill.txt'), vim.uv.fs_stat(doc .. '/tags')
  if page and not (tags and tags.mtime.sec >= page.mtime.sec) then
    pcall(vim.cmd.helptags, { doc, magic = { file = false } }) -- the folder may not be ours to write to
  end
end

--- Start the server for its buffers, with ghost text, drafts and keys according to the options. Problems with the
--- options, or with this machine, are shown once, in plain words; nothing is raised.
---@param options? infill.Options see |infill-options|
function M.setup(options)
  local old = M.too_old()
  if old then
    M.notify(old, vim.log.levels.ERROR)
    return
  end
  index_help()
  local resolved, problems = require('infill.options').resolve(options)
  if #problems > 0 then
    M.notify('setup(): ' .. table.concat(problems, '; '))
  end
  local own = M.is_default(resolved.cmd) and M.not_found(resolved.cmd) and require('infill.install').program()
  if own then
    resolved.cmd = { own, 'serve' }
  end
  M.start_again = function()
    M.setup(options)
  end
  M.cmd = resolved.cmd
  local missing = M.not_found(resolved.cmd)
  if missing then
    M.notify(missing)
    return
  end
  require('infill.attach').start(resolved)
end

--- Accept the whole suggestion; without one, jump to the next edit, then accept it, unless the key jumps in a snippet.
---@return boolean # false when there is neither, so that a key can do what it does otherwise
function M.accept()
  local is_snippet = vim.snippet.active({ direction = 1 })
  return require('infill.accept').all() or not is_snippet and require('infill.next_edit').accept()
end

--- Accept the next word of the suggestion.
---@return boolean # false when there is none
function M.accept_word()
  return require('infill.accept').word()
end

--- Accept the suggestion up to the end of the line.
---@return boolean # false when there is none
function M.accept_line()
  return require('infill.accept').line()
end

--- Hide the suggestion, or otherwise the next edit; it is not shown again.
---@return boolean # false when there is neither
function M.dismiss()
  return require('infill.accept').dismiss() or require('infill.next_edit').dismiss()
end

--- Ask the partner, a larger model on a server, to improve the suggestion, which stays until the answer arrives.
---@return boolean # false when there is none
function M.refine()
  return require('infill.accept').refine()
end

--- Show the next suggestion for this place, if there are several.
---@return boolean # false when there is none
function M.next()
  return require('infill.accept').next()
end

--- Show no ghost text and no next edits for some minutes. What you ask for still comes.
---@param minutes number more than 0
function M.snooze(minutes)
  require('infill.attach').snooze(minutes)
end

--- End the snooze.
function M.resume()
  require('infill.attach').resume()
end

--- For a statusline: `infill: ready`, `infill: loading 40%`; empty if infill-ls does not serve the buffer.
---@return string
function M.status()
  return require('infill.status').text(0)
end

return M

--- Accepting a suggestion: all of it, a word or a line. The accepted part stays; the server continues denoising the
--- rest.
---
--- A suggestion is visible if and only if its key takes it, or another function does: `M.fit` says so.
---
--- Neovim shows and inserts a suggestion even if its line has changed since. So `M.fit` compares the two before anything
--- is inserted, and whenever a key was typed; what does not fit is dropped.

local M = {}

--- Neovim's suggestions in a buffer. It has no public function to look at them without accepting one.
---@param buf integer
local function suggestions(buf)
  return vim.tbl_get(vim.lsp._capability, 'all', 'inline_completion', 'active', buf)
end

--- Whether the visible suggestion is of another server, whose items tell nothing of the line.
---@param buf integer
local function is_foreign(buf)
  local item = (suggestions(buf) or {}).current
  return item ~= nil and not vim.tbl_get(item, 'command', 'arguments', 3)
end

local function cursor()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, col
end

--- The row of the visible suggestion, which moves with its line when text is edited elsewhere; nil when none is drawn.
---@param buf integer
---@return integer?
local function drawn_row(buf)
  local space = vim.api.nvim_create_namespace('nvim.lsp.inline_completion')
  local mark = vim.api.nvim_buf_get_extmarks(buf, space, 0, -1, { limit = 1 })[1]
  return mark and mark[2]
end

--- Whether the accept key belongs to the popup menu: an item is selected, or the user has mapped the key, for menus as a
--- rule.
---@param buf integer
---@return boolean
local function menu_has_key(buf)
  return vim.fn.pumvisible() == 1
    and (vim.fn.complete_info({ 'selected' }).selected >= 0 or require('infill.attach').has_users_accept(buf))
end

---@class infill.Fit how a suggestion fits into the cursor's line
---@field item vim.lsp.inline_completion.Item
---@field text string what is left to insert
---@field row integer from 0
---@field col integer where it begins, in bytes from 0
---@field end_col integer up to where it replaces the line
---@field is_begun boolean whether it begins at the cursor, behind what is typed of it

--- How the suggestion in `buf` fits into the line as it is now; nil if there is none, or if the line is no longer the
--- one that it was made for; nil in Replace mode, and while the popup menu has the key.
---@param buf integer
---@return infill.Fit?
function M.fit(buf)
  local item = (suggestions(buf) or {}).current
  local head, behind = unpack(vim.tbl_get(item or {}, 'command', 'arguments') or {}, 3, 4)
  if not head or vim.api.nvim_get_current_buf() ~= buf or not vim.bo[buf].modifiable then
    return nil
  elseif vim.startswith(vim.api.nvim_get_mode().mode, 'R') or menu_has_key(buf) then
    return nil
  end
  local start_row, start_col, _, end_col = item.range:to_extmark()
  local row, col = cursor()
  local line = vim.api.nvim_get_current_line()
  if (drawn_row(buf) or start_row) ~= row or line:sub(col + 1) ~= behind then
    return nil
  end
  local now, whole = line:sub(1, col), head:sub(1, start_col) .. item.insert_text
  local found = { item = item, row = row, end_col = col + end_col - #head }
  found.is_begun = col >= start_col and col < #whole and vim.startswith(whole, now)
  found.col = found.is_begun and col or start_col
  found.text = whole:sub(found.col + 1)
  return (found.is_begun or now == head) and found or nil
end

--- Take a suggestion off the screen unless it fits. Those of other servers are left alone.
---@param buf integer
function M.check(buf)
  local shown = suggestions(buf)
  if shown and shown.current and not is_foreign(buf) and not M.fit(buf) then
    shown.current = nil
    shown:hide()
  end
end

--- Whether a suggestion is visible in `buf`, of whichever server.
---@param buf integer
---@return boolean
function M.is_shown(buf)
  return M.fit(buf) ~= nil or is_foreign(buf) and vim.api.nvim_get_current_buf() == buf
end

--- Call `act` with a suggestion's client and its id on the server.
---@param item { client_id: integer, command: lsp.Command? }
---@param act fun(client: vim.lsp.Client, id: string)
local function with_client(item, act)
  local client = vim.lsp.get_client_by_id(item.client_id)
  local id = vim.tbl_get(item, 'command', 'arguments', 1)
  if client and id then
    act(client, id)
  end
end

--- Make what is left of a partly accepted suggestion Neovim's suggestion at the cursor, and tell the server.
---@param buf integer
---@param found infill.Fit
---@param bytes integer accepted now
---@param tail integer bytes behind the cursor that the rest replaces
local function keep(buf, found, bytes, tail)
  local item, row, col = found.item, cursor()
  local line = vim.api.nvim_get_current_line()
  local client = assert(vim.lsp.get_client_by_id(item.client_id))
  local stands = item.insert_text:sub(1, #item.insert_text - #found.text + bytes)
  item.accepted = (item.accepted or 0) + vim.str_utfindex(stands, client.offset_encoding)
  item.insert_text = found.text:sub(bytes + 1)
  item.range = vim.range(buf, row, col, row, col + tail)
  item.command.arguments[3], item.command.arguments[4] = line:sub(1, col), line:sub(col + 1)
  with_client(item, function(_, id)
    local params = { textDocument = { uri = vim.uri_from_bufnr(buf) }, id = id, acceptedLength = item.accepted }
    client:notify('infill/didAccept', params, buf)
  end)
end

--- Insert text at the cursor exactly as it is: no option and no |vim.paste| of the user's changes it. Like typed text,
--- |.|, a count and a macro repeat it.
---@param text string
local function insert(text)
  local paste = vim.paste
  vim.paste = function(lines)
    vim.api.nvim_put(lines, 'c', false, true)
    return true
  end
  local done, problem = pcall(vim.api.nvim_paste, text, false, -1)
  vim.paste = paste
  if not done then
    error(problem, 0)
  end
  require('infill.macro').add(text)
end

--- How many bytes of the text that a suggestion replaces stay until its `rest` is accepted: of a closing quote and
--- brackets, those that the rest still writes.
---@param replaced string
---@param taken string accepted now
---@param rest string
---@return integer
local function tail_for(replaced, taken, rest)
  local quote = replaced:match('^["\'`]')
  if quote and taken:gsub('\\.', ''):find(quote, 1, true) then
    replaced = replaced:sub(2)
  end
  if replaced:find('[^%)%]}]') then
    return #replaced
  end
  local opened, closed = 0, 0
  for bracket in rest:gmatch('[%(%)%[%]{}]') do
    if bracket:find('[%(%[{]') then
      opened = opened + 1
    elseif opened > 0 then
      opened = opened - 1
    else
      closed = closed + 1
    end
  end
  return math.min(#replaced, closed)
end

--- Accept this many bytes of what is left, or all of it.
---@param buf integer
---@param found infill.Fit
---@param bytes integer
local function take(buf, found, bytes)
  local is_whole = bytes >= #found.text or not found.is_begun
  local replaced = vim.api.nvim_get_current_line():sub(found.col + 1, found.end_col)
  local tail = is_whole and 0 or tail_for(replaced, found.text:sub(1, bytes), found.text:sub(bytes + 1))
  if is_whole or tail < #replaced then
    vim.api.nvim_buf_set_text(buf, found.row, found.col, found.row, found.end_col - tail, {})
    vim.api.nvim_win_set_cursor(0, { found.row + 1, found.col })
  end
  insert(is_whole and found.text or found.text:sub(1, bytes))
  require('infill.drafts').clear(buf)
  if not is_whole then
    return keep(buf, found, bytes, tail)
  end
  suggestions(buf):abort()
  with_client(found.item, function(client)
    client:exec_cmd(found.item.command, { bufnr = buf })
  end)
end

--- What `M.now` has put off, by number; false where it is done.
---@type (fun()|false)[]
local changes = {}

--- Change the text before the next key, also from an <expr> mapping, which may not do so itself. In insert mode this
--- closes the popup menu, as a typed character does, and is undone by itself.
---@param change fun()
function M.now(change)
  table.insert(changes, change)
  local keys = ('<Cmd>lua require("infill.accept").run(%d)<CR>'):format(#changes)
  if vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
    keys = '<C-g>u' .. keys .. '<C-g>u<Cmd>lua require("infill.macro").mark()<CR>'
  end
  vim.api.nvim_feedkeys(vim.keycode(keys), 'in', false)
end

--- Do what was put off.
---@param number integer
function M.run(number)
  local change = changes[number]
  changes[number] = false
  if change then
    change()
  end
end

--- Accept as much of what is left as `measure` says.
---@param measure fun(left: string): integer bytes
---@return boolean
local function accept(measure)
  local buf = vim.api.nvim_get_current_buf()
  if is_foreign(buf) and not menu_has_key(buf) then
    M.now(function() end)
    return vim.lsp.inline_completion.get()
  elseif not M.fit(buf) then
    return false
  end
  M.now(function()
    local found = M.fit(buf)
    if found then
      take(buf, found, measure(found.text))
    end
  end)
  return true
end

--- Bytes up to the end of the next word, with the space and the line breaks before it.
---@param left string
---@return integer
function M.word_end(left)
  local _, stop = left:find('^%s*[%w_\128-\255]+')
  if not stop then
    _, stop = left:find('^%s*[^%w_%s\128-\255]+')
  end
  return stop or #left
end

--- Bytes up to the end of the line; a line break at the start is accepted with the line after it.
---@param left string
---@return integer
function M.line_end(left)
  local stop = left:find('\n', 2, true)
  return stop and stop - 1 or #left
end

function M.all()
  return accept(function(left)
    return #left
  end)
end

function M.word()
  return accept(M.word_end)
end

function M.line()
  return accept(M.line_end)
end

--- Tell the server that the user rejected a suggestion or a next edit.
---@param buf integer
---@param item { client_id: integer, command: lsp.Command? }
function M.reject(buf, item)
  with_client(item, function(client, id)
    client:notify('infill/didReject', { textDocument = { uri = vim.uri_from_bufnr(buf) }, id = id }, buf)
  end)
end

function M.dismiss()
  local buf = vim.api.nvim_get_current_buf()
  local found = M.fit(buf)
  if found then
    M.reject(buf, found.item)
    suggestions(buf):abort()
  end
  return found ~= nil
end

--- Have Neovim ask for suggestions again, as when the cursor moves. The current one stays until the answer arrives.
---@param buf integer
local function ask_again(buf)
  suggestions(buf):automatic_request()
end

--- Ask the partner to improve the visible suggestion, which stays.
---@return boolean # false when there is none
function M.refine()
  local buf = vim.api.nvim_get_current_buf()
  local found = M.fit(buf)
  if found then
    with_client(found.item, function(client, id)
      require('infill.commands').refine_suggestion(client, buf, id)
    end)
  end
  return found ~= nil
end

--- The handler of `infill/refined`: the partner has improved a suggestion.
---@param refined { uri: string, id: string }
function M.on_refined(_, refined)
  local buf = require('infill').buf_of(refined.uri)
  if M.is_shown(buf) then
    ask_again(buf)
  end
end

--- Show the next of several suggestions that fit.
function M.next()
  local buf = vim.api.nvim_get_current_buf()
  if not M.is_shown(buf) then
    return false
  end
  for _ = 1, suggestions(buf):count_items() do
    vim.lsp.inline_completion.select()
    if M.is_shown(buf) then
      return true
    end
  end
  M.check(buf)
  return true
end

--- From now on, drop what does not fit: after each key, with each answer, and when the user goes elsewhere.
---@param group integer the group of autocommands
function M.watch(group)
  local function on(events, act)
    vim.api.nvim_create_autocmd(events, { group = group, callback = act })
  end
  on({ 'CursorMovedI', 'TextChangedI', 'TextChangedP', 'ModeChanged' }, function(event)
    M.check(event.buf)
  end)
  on({ 'LspRequest', 'CompleteChanged' }, vim.schedule_wrap(function(event)
    M.check(event.buf)
  end))
  on('CompleteDone', vim.schedule_wrap(function(event)
    local shown = suggestions(event.buf)
    if shown and not shown.current and vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
      ask_again(event.buf)
    end
  end))
  on('WinLeave', function(event)
    local shown = suggestions(event.buf)
    if shown then
      shown:abort()
    end
  end)
end

return M

--- Accepting a suggestion: all of it, a word or a line. The accepted part stays; the server continues denoising the
--- rest.
---
--- After a word, Neovim's own suggestion is gone until the server answers. The rest is kept and shown in its place, so
--- that the next key accepts the next word immediately.

local M = {}

---@class infill.Rest what is left of a suggestion after a part of it was accepted
---@field item vim.lsp.inline_completion.Item
---@field text string its whole text
---@field taken integer bytes of `text` that stand in the buffer
---@field tail integer bytes behind the cursor that the whole suggestion replaces
---@field tick integer the buffer's `changedtick` when it was valid
---@field asked integer? the request that was sent since, and whose answer takes the place of this
---@field row integer the cursor's row, from 0
---@field col integer the cursor's column, in bytes from 0

---@type table<integer, infill.Rest?>
local rests = {}

local function cursor()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, col
end

--- Whether the rest of a suggestion in `buf` is still valid.
---@param buf integer
---@return boolean
function M.is_rest(buf)
  local rest = rests[buf]
  if not rest or vim.api.nvim_get_current_buf() ~= buf then
    return false
  end
  local row, col = cursor()
  local current = rest.tick == vim.api.nvim_buf_get_changedtick(buf) and rest.row == row and rest.col == col
  if not current then
    rests[buf] = nil
  end
  return current
end

--- A request for a suggestion was sent.
---@param buf integer
---@param request integer
function M.asked(buf, request)
  if M.is_rest(buf) then
    rests[buf].asked = request
  end
end

--- A request for a suggestion has ended. Returns whether the rest of the previous one is still valid.
---@param buf integer
---@param request integer
---@return boolean
function M.outlives(buf, request)
  if M.is_rest(buf) and rests[buf].asked ~= request then
    return true
  end
  rests[buf] = nil
  return false
end

--- The suggestion `item` relative to the cursor.
---@param buf integer
---@param item vim.lsp.inline_completion.Item
---@return infill.Rest? # nil when only the whole of it makes sense here
local function around_cursor(buf, item)
  local text = item.insert_text
  if type(text) ~= 'string' then
    return nil
  end
  local row, col = cursor()
  local taken, tail = 0, 0
  if item.range then
    local start_row, start_col, end_row, end_col = item.range:to_extmark()
    if start_row ~= row or end_row ~= row or start_col > col or end_col < col then
      return nil
    end
    local typed = vim.api.nvim_buf_get_text(buf, row, start_col, row, col, {})[1]
    if not vim.startswith(text, typed) then
      return nil
    end
    taken, tail = #typed, end_col - col
  end
  return { item = item, text = text, taken = taken, tail = tail, tick = 0, row = row, col = col }
end

--- Show the rest of a suggestion, instead of Neovim's own.
---@param buf integer
---@param rest infill.Rest
local function keep(buf, rest)
  rest.tick = vim.api.nvim_buf_get_changedtick(buf)
  rest.row, rest.col = cursor()
  rests[buf] = rest
  require('infill.drafts').hint(buf, rest.text:sub(rest.taken + 1), rest.tail)
end

--- Insert text at the cursor, replacing `tail` bytes behind it, and move the cursor past it.
local function insert(buf, text, tail)
  local row, col = cursor()
  local lines = vim.split(text:gsub('\r', ''), '\n', { plain = true })
  vim.api.nvim_buf_set_text(buf, row, col, row, col + tail, lines)
  local end_col = #lines[#lines] + (#lines == 1 and col or 0)
  vim.api.nvim_win_set_cursor(0, { row + #lines, end_col })
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

--- Tell the server how much of the suggestion is in the buffer.
---@param buf integer
---@param rest infill.Rest
local function tell(buf, rest)
  with_client(rest.item, function(client, id)
    client:notify('infill/didAccept', {
      textDocument = { uri = vim.uri_from_bufnr(buf) },
      id = id,
      acceptedLength = vim.str_utfindex(rest.text:sub(1, rest.taken), client.offset_encoding),
    }, buf)
  end)
end

--- Accept this many bytes of the rest, or all of it.
---@param buf integer
---@param rest infill.Rest
---@param bytes integer
local function take(buf, rest, bytes)
  require('infill.drafts').clear(buf)
  rests[buf] = nil
  local left = #rest.text - rest.taken
  if bytes >= left then
    insert(buf, rest.text:sub(rest.taken + 1), rest.tail)
    local client = vim.lsp.get_client_by_id(rest.item.client_id)
    if client and rest.item.command then
      client:exec_cmd(rest.item.command, { bufnr = buf })
    end
    return
  end
  insert(buf, rest.text:sub(rest.taken + 1, rest.taken + bytes), 0)
  rest.taken = rest.taken + bytes
  keep(buf, rest)
  tell(buf, rest)
end

--- Accept as much of the remaining text as `measure` says.
---@param measure fun(left: string): integer bytes
---@return boolean
local function accept(measure)
  local buf = vim.api.nvim_get_current_buf()
  if M.is_rest(buf) then
    vim.schedule(function() -- an <expr> mapping may not change the text itself
      if M.is_rest(buf) then
        local rest = assert(rests[buf])
        take(buf, rest, measure(rest.text:sub(rest.taken + 1)))
      end
    end)
    return true
  end
  return vim.lsp.inline_completion.get({
    on_accept = function(item)
      local rest = around_cursor(buf, item)
      local left = rest and rest.text:sub(rest.taken + 1)
      if not rest or not left or measure(left) >= #left then
        return item
      end
      take(buf, rest, measure(left))
    end,
  })
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
  if M.is_rest(buf) then
    rests[buf] = nil
    require('infill.drafts').clear(buf)
    return true
  end
  return vim.lsp.inline_completion.get({
    on_accept = function(item)
      M.reject(buf, item)
    end,
  })
end

--- Whether Neovim shows a suggestion of its own.
local function is_native(buf)
  local shown = vim.api.nvim_get_namespaces()['nvim.lsp.inline_completion']
  return shown ~= nil and #vim.api.nvim_buf_get_extmarks(buf, shown, 0, -1, { limit = 1 }) > 0
end

--- Whether a suggestion is visible in `buf`, no matter which plugin draws it.
---@param buf integer
---@return boolean
function M.is_shown(buf)
  return vim.api.nvim_get_current_buf() == buf and (M.is_rest(buf) or is_native(buf))
end

--- Have Neovim ask for suggestions again, as when the cursor moves. The current one stays until the answer arrives.
---@param buf integer
function M.ask_again(buf)
  -- Neovim has no function for this, so run only its own autocommands.
  local event = { group = ('nvim.lsp.inline_completion:%d'):format(buf), buf = buf, modeline = false }
  pcall(vim.api.nvim_exec_autocmds, 'CursorMovedI', event)
end

--- Ask the partner to improve the visible suggestion, which stays.
---@return boolean # false when there is none
function M.refine()
  local buf = vim.api.nvim_get_current_buf()
  local function ask(item)
    with_client(item, function(client, id)
      require('infill.commands').refine_suggestion(client, buf, id)
    end)
  end
  local rest = M.is_rest(buf) and rests[buf]
  if rest then
    vim.schedule(function()
      ask(rest.item)
    end)
    return true
  end
  return vim.lsp.inline_completion.get({
    on_accept = function(item) -- Neovim has hidden it, and draws nothing before this has returned
      local found = around_cursor(buf, item)
      if found then
        keep(buf, found)
      else
        M.ask_again(buf)
      end
      ask(item)
    end,
  })
end

--- The handler of `infill/refined`: the partner has improved a suggestion, or a recent fill.
---@param refined { uri: string, id: string?, range: lsp.Range? }
function M.on_refined(_, refined)
  local buf = vim.uri_to_bufnr(refined.uri)
  if refined.range then
    local said = 'the partner has something better for line %d; there, :Infill refine puts it in'
    require('infill').notify(said:format(refined.range.start.line + 1), vim.log.levels.INFO)
  elseif M.is_shown(buf) then
    M.ask_again(buf)
  end
end

function M.next()
  if not is_native(0) then
    return false
  end
  vim.schedule(vim.lsp.inline_completion.select)
  return true
end

return M

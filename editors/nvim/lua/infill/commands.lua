--- `:Infill …`: each subcommand, what it sends to the server, and its message when nothing comes back.

local M = {}

--- Default strength of a rework: half of the text may change.
local STRENGTH = 0.5
local SNOOZE_MINUTES = 10

--- Our running requests, for `:Infill cancel`: client by request id.
---@type table<integer, vim.lsp.Client>
local running = {}

local function notify(message, level)
  require('infill').notify(message, level)
end

---@param row integer from 1
---@param bytes integer before the position, in that row
---@param encoding string
---@return lsp.Position
local function position(row, bytes, encoding)
  local line = vim.fn.getline(row)
  local character = vim.str_utfindex(line, encoding, math.min(bytes, #line), false)
  return { line = row - 1, character = character }
end

--- The range of a command: the selected text, the lines it was given without their indentation, or the cursor.
---@param args vim.api.keyset.create_user_command.command_args
---@param encoding string
---@return lsp.Range
local function range_of(args, encoding)
  if args.range == 0 then
    local at = require('infill.status').place(encoding)
    return { start = at, ['end'] = at }
  end
  local first, last = vim.fn.getpos("'<"), vim.fn.getpos("'>")
  if vim.fn.visualmode() == 'v' and first[2] == args.line1 and last[2] == args.line2 then
    local line, col = vim.fn.getline(last[2]), last[3]
    local stop = col > #line and #line or col + vim.str_utf_end(line, col) -- the last character is selected whole
    return { start = position(first[2], first[3] - 1, encoding), ['end'] = position(last[2], stop, encoding) }
  end
  local indent = #vim.fn.getline(args.line1):match('^%s*')
  return { start = position(args.line1, indent, encoding), ['end'] = position(args.line2, math.huge, encoding) }
end

---@param client vim.lsp.Client
---@param command string
---@param arguments any[]
---@param cares? fun(): boolean whether the user still wants to know why nothing was changed; always by default
---@param done? string the message once it is done; none by default
---@return boolean # whether the server was asked
local function execute(client, command, arguments, cares, done)
  local offered = vim.tbl_get(client.server_capabilities, 'executeCommandProvider', 'commands') or {}
  if not vim.list_contains(offered, command) then
    notify(("this infill-ls does not know '%s'; update it"):format(command))
    return false
  end
  local buf, id = vim.api.nvim_get_current_buf(), nil
  local params = { command = command, arguments = arguments }
  _, id = client:request('workspace/executeCommand', params, function(error, result)
    local wanted = running[id] ~= nil
    running[id] = nil
    if not wanted then -- the user has cancelled it, and knows
      return
    elseif error then
      notify(error.message)
    elseif type(result) == 'table' and result.applied == false and (not cares or cares()) then
      notify(type(result.reason) == 'string' and result.reason or 'nothing was changed')
    elseif done then
      notify(done, vim.log.levels.INFO)
    end
  end, buf)
  if id then
    running[id] = client
  end
  return id ~= nil
end

---@param command string
---@param extra? fun(words: string[]): table?, string?
local function fill(command, extra)
  return function(client, args, words)
    local argument = { uri = vim.uri_from_bufnr(0), range = range_of(args, client.offset_encoding) }
    local more, problem = {}, nil
    if extra then
      more, problem = extra(words)
    end
    if problem then
      return notify(problem)
    end
    execute(client, command, { vim.tbl_extend('error', argument, more or {}) })
  end
end

local function strength(words)
  local given = words[1] and tonumber(words[1]) or STRENGTH
  if words[1] and not tonumber(words[1]) or given < 0 or given > 1 then
    return nil, ("the strength of a rework is a number from 0 to 1, not '%s'"):format(words[1])
  end
  return { strength = given }
end

--- Ask the partner to improve the visible suggestion `id`.
---@param client vim.lsp.Client
---@param buf integer
---@param id string
function M.refine_suggestion(client, buf, id)
  execute(client, 'infill-ls.refineSuggestion', { id, vim.uri_from_bufnr(buf) }, function()
    return require('infill.accept').is_shown(buf)
  end)
end

--- Download a model of the catalogue.
---@param client vim.lsp.Client
---@param model string
function M.pull(client, model)
  if execute(client, 'infill-ls.pullModel', { { model = model } }, nil, model .. ' is here') then
    notify(('getting %s; :Infill cancel stops it'):format(model), vim.log.levels.INFO)
  end
end

--- Run `infill-ls NAME` in a terminal below: it may not be on PATH.
---@param name string
local function in_terminal(name)
  local cmd = require('infill').cmd
  local missing = not cmd and 'call setup() first' or require('infill').not_found(cmd)
  if missing then
    return notify(missing)
  end
  local words = {} ---@type string[] all that starts it, such as docker exec
  for _, word in ipairs(cmd) do
    if word == 'serve' then
      break
    end
    table.insert(words, word)
  end
  vim.cmd.new({ mods = { split = 'botright' } })
  vim.fn.jobstart(vim.list_extend(words, { name }), { term = true })
end

local refine_fill = fill('infill-ls.refine')

--- The visible suggestion; otherwise the range, or the statement at the cursor.
local function refine(client, args, words)
  local typing = vim.startswith(vim.api.nvim_get_mode().mode, 'i')
  if not (typing and args.range == 0 and require('infill.accept').refine()) then
    refine_fill(client, args, words)
  end
end

local function toggle(client)
  local filter = { bufnr = 0 }
  vim.lsp.inline_completion.enable(not vim.lsp.inline_completion.is_enabled(filter), filter)
  require('infill.attach').apply_snooze(vim.api.nvim_get_current_buf(), client)
  vim.cmd.redrawstatus()
end

local function snooze(words)
  local minutes = tonumber(words[1] or SNOOZE_MINUTES)
  if not minutes or not (minutes > 0 and minutes <= 24 * 60) then
    return notify(("a snooze takes more than 0 and at most 1440 minutes, not '%s'"):format(words[1]))
  end
  require('infill').snooze(minutes)
end

local function cancel()
  require('infill.install').cancel()
  for id, client in pairs(running) do
    running[id] = nil
    client:cancel_request(id)
  end
end

---@type table<string, fun(client: vim.lsp.Client, args: table, words: string[])>
local subcommands = {
  fill = fill('infill-ls.fillHole'),
  ['function'] = fill('infill-ls.fillFunction'),
  file = fill('infill-ls.fillFile'),
  body = fill('infill-ls.writeBody'),
  rework = fill('infill-ls.rework', strength),
  repair = fill('infill-ls.repair'),
  refine = refine,
  restart = function(client)
    execute(client, 'infill-ls.restartWorker', {})
  end,
  pull = function(client, _, words)
    M.pull(client, words[1] or 'qwen2.5-coder-0.5b')
  end,
  toggle = toggle,
}

--- Run `:Infill`.
---@param args vim.api.keyset.create_user_command.command_args
function M.run(args)
  local name, words = args.fargs[1] or 'status', vim.list_slice(args.fargs, 2)
  local old = require('infill').too_old()
  if old then
    return notify(old)
  end
  if name == 'status' then
    return require('infill.status').show()
  elseif name == 'install' then
    return require('infill.install').run(require('infill').start_again or function() end)
  elseif name == 'models' or name == 'doctor' then
    return in_terminal(name)
  elseif name == 'cancel' then
    return cancel()
  elseif name == 'snooze' then
    return snooze(words)
  elseif name == 'resume' then
    return require('infill').resume()
  end
  local run = subcommands[name]
  if not run then
    return notify(("there is no ':Infill %s'; there are %s"):format(name, table.concat(M.names(), ', ')))
  end
  local client = require('infill.status').client(0)
  if not client then
    return notify('no server runs for this file; see :checkhealth infill')
  end
  run(client, args, words)
end

--- The names of the subcommands.
---@return string[]
function M.names()
  local names = vim.tbl_keys(subcommands)
  vim.list_extend(names, { 'cancel', 'doctor', 'install', 'models', 'resume', 'snooze', 'status' })
  table.sort(names)
  return names
end

--- Completion of `:Infill`.
---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  if not line:match("Infill!?%s+%S*$") then
    return {}
  end
  return vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, M.names())
end

return M

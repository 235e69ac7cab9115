--- The options of `setup()`: their types, defaults, and problems in a user's values.

local M = {}

--- A key for a function of insert mode, or false for none.
---@alias infill.Key string|false

---@class infill.Keymaps
---@field accept? infill.Key the whole suggestion
---@field accept_word? infill.Key its next word
---@field accept_line? infill.Key the rest of its line
---@field next? infill.Key the next of several suggestions
---@field dismiss? infill.Key hide it, and do not show it again
---@field refine? infill.Key ask the partner for a better one
---@field next_edit? infill.Key in normal mode, while one is shown: jump to the next edit, then take it
---@field next_edit_dismiss? infill.Key in normal mode, while one is shown: take it off the screen for good

---@class infill.Options
---@field cmd? string[] how the server is started
---@field filetypes? string[] where it is used; every file by default
---@field suggestions? boolean ghost text while you type
---@field drafts? boolean show how a fill settles
---@field next_edits? boolean show what no longer fits after an edit
---@field keymaps? infill.Keymaps|false keys of insert mode; false for none at all
---@field settings? table<string, any> settings of the server, as in its documentation

---@class infill.Resolved: infill.Options
---@field cmd string[]
---@field suggestions boolean
---@field drafts boolean
---@field next_edits boolean
---@field keymaps table<string, infill.Key>
---@field settings table<string, any>
M.defaults = {
  cmd = { 'infill-ls', 'serve' },
  filetypes = nil,
  suggestions = true,
  drafts = true,
  next_edits = true,
  keymaps = {
    accept = '<Tab>',
    accept_word = '<C-Right>',
    accept_line = '<C-Down>',
    next = '<M-]>',
    dismiss = '<C-]>',
    refine = '<M-r>',
    next_edit = '<Tab>',
    next_edit_dismiss = '<Esc>',
  },
  settings = {},
}

---@param value any
local function is_strings(value)
  return vim.islist(value) and #value > 0 and vim.iter(value):all(function(item)
    return type(item) == 'string'
  end)
end

local function is_key(value)
  return value == false or (type(value) == 'string' and value ~= '')
end

--- For each option: a check and its description.
---@type table<string, [any, string]>
local kinds = {
  cmd = { is_strings, 'a list of strings' },
  filetypes = { is_strings, 'a list of strings' },
  suggestions = { 'boolean', 'true or false' },
  drafts = { 'boolean', 'true or false' },
  next_edits = { 'boolean', 'true or false' },
  keymaps = {
    function(value)
      return type(value) == 'table' or value == false
    end,
    'a table or false',
  },
  settings = { 'table', 'a table' },
}

--- `given` if it is valid, otherwise the default.
local function pick(name, given, default, kind, said, problems)
  if given == nil then
    return default
  end
  if pcall(vim.validate, name, given, kind) then
    return given
  end
  table.insert(problems, ('%s must be %s, and is %s; the default is used'):format(name, said, vim.inspect(given)))
  return default
end

local function unknown(given, known, prefix, problems)
  for name in vim.spairs(given) do
    if known[name] == nil then
      table.insert(problems, ("there is no option '%s%s'; see :help infill-options"):format(prefix, tostring(name)))
    end
  end
end

local function keymaps(given, problems)
  if given == false then
    return {}
  end
  unknown(given, M.defaults.keymaps, 'keymaps.', problems)
  local keys = {}
  for name, default in pairs(M.defaults.keymaps) do
    keys[name] = pick('keymaps.' .. name, given[name], default, is_key, 'a key or false', problems)
  end
  return keys
end

--- The options to use. A wrong one is reported and replaced by its default; the others apply.
---@param given? infill.Options
---@return infill.Resolved options
---@return string[] problems
function M.resolve(given)
  local problems = {} ---@type string[]
  given = pick('options', given, {}, 'table', 'a table', problems)
  unknown(given, kinds, '', problems)
  local resolved = {}
  for name, kind in pairs(kinds) do
    resolved[name] = pick(name, given[name], M.defaults[name], kind[1], kind[2], problems)
  end
  resolved.keymaps = keymaps(resolved.keymaps, problems)
  return resolved, problems
end

return M

--- Macros that replay the accepted text, and not the key that accepted it: the next time nothing, or something else, is
--- suggested.
---
--- While a macro is recorded, `M.mark` adds a mark behind that key. When the recording ends, a paste of the text takes the
--- place of both in the register.

local M = {}

local MARK = vim.keycode('<Ignore>')
local PASTE, PASTED = '\128PS', '\128PE' -- as Neovim records what a terminal pastes; `vim.keycode()` has no name for them
local space = vim.api.nvim_create_namespace('infill.macro')

---@type { keys: string, text: string }[] the accepted texts of the recording, and the keys that accepted them
local accepted = {}
local typed = '' -- the last keys, before mappings

--- Text has been accepted.
---@param text string
function M.add(text)
  if vim.fn.reg_recording() ~= '' then
    table.insert(accepted, { keys = typed, text = text })
  end
end

--- Mark the place of the last accepted text in the recording.
function M.mark()
  if accepted[#accepted] and not accepted[#accepted].is_marked then
    accepted[#accepted].is_marked = true
    vim.api.nvim_feedkeys(MARK, 'int', false)
  end
end

--- Replace what is marked in a register that was just recorded.
---@param register string
function M.replace(register)
  local content = vim.fn.getreg(register)
  local from = 1
  for _, each in ipairs(accepted) do
    local first, last = content:find(each.keys .. MARK, from, true)
    if first then
      local paste = PASTE .. each.text .. PASTED
      content = content:sub(1, first - 1) .. paste .. content:sub(last + 1)
      from = first + #paste
    end
  end
  accepted = {}
  vim.fn.setreg(register, content, 'c')
end

--- From now on, watch recordings.
---@param group integer the group of autocommands
function M.watch(group)
  vim.api.nvim_create_autocmd('RecordingEnter', {
    group = group,
    callback = function()
      accepted = {}
      vim.on_key(function(_, keys)
        typed = keys ~= '' and keys or typed
      end, space)
    end,
  })
  vim.api.nvim_create_autocmd('RecordingLeave', {
    group = group,
    callback = function()
      vim.on_key(nil, space)
      if #accepted > 0 then -- the register is written behind this event
        local replace = '<Cmd>lua require("infill.macro").replace("%s")<CR>'
        vim.api.nvim_feedkeys(vim.keycode(replace:format(vim.v.event.regname:lower())), 'in', false)
      end
    end,
  })
end

return M

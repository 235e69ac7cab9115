--- Highlight groups: how sure the model is of a token, from noise to settled; and old and new text of the next edit.

local M = {}

--- Probability from which a group is used, and its colours on a dark and on a light background.
---@type { [1]: string, [2]: number, [3]: string, [4]: string }[]
local levels = {
  { 'InfillSure', 0.9, '#8fbc8f', '#3c7a3c' },
  { 'InfillLikely', 0.6, '#b9b377', '#7d6f1a' },
  { 'InfillUnsure', 0.3, '#c8925f', '#a35c14' },
  { 'InfillNoise', 0, '#a86a6a', '#a83f3f' },
}

--- The group for a token of this probability.
---@param confidence number 0 to 1
---@return string
function M.group(confidence)
  for _, level in ipairs(levels) do
    if confidence >= level[2] then
      return level[1]
    end
  end
  return levels[#levels][1]
end

local function set()
  local shade = vim.o.background == 'light' and 4 or 3
  for _, level in ipairs(levels) do
    vim.api.nvim_set_hl(0, level[1], { fg = level[shade], italic = true, default = true })
  end
  vim.api.nvim_set_hl(0, 'InfillOld', { link = 'DiffDelete', default = true })
  vim.api.nvim_set_hl(0, 'InfillNew', { link = 'DiffAdd', default = true })
end

--- Define the groups, now and after each change of the colour scheme. A user's own definitions take precedence.
---@param group integer the group of autocommands
function M.define(group)
  set()
  vim.api.nvim_create_autocmd('ColorScheme', { group = group, callback = set })
end

return M

--- Text in colours: lists of `{ text, highlight }`, as extmarks take them. Knows no buffers and no protocol.

local M = {}

---@alias infill.Chunk [string, string?]

--- The tokens of a draft as lines of chunks.
---@param pieces string[] the tokens as text
---@param confidences number[] how sure the model is of each, 0 to 1
---@param tabstop integer cells of a tab
---@return infill.Chunk[][] lines at least one, which may be empty
function M.lines(pieces, confidences, tabstop)
  local group = require('infill.colors').group
  local lines = { {} } ---@type infill.Chunk[][]
  for index, piece in ipairs(pieces) do
    local highlight = group(confidences[index] or 0)
    for number, part in ipairs(vim.split(piece, '\n', { plain = true })) do
      if number > 1 then
        lines[#lines + 1] = {}
      end
      if part ~= '' then
        table.insert(lines[#lines], { (part:gsub('\t', (' '):rep(tabstop))), highlight })
      end
    end
  end
  return lines
end

--- Cells that `text` takes on the screen.
local function width(text)
  return vim.api.nvim_strwidth(text)
end

--- Cut a line in two where it reaches `cells` on the screen.
---@param line infill.Chunk[]
---@param cells integer
---@return infill.Chunk[] head exactly `cells` wide, filled up with spaces
---@return infill.Chunk[] tail what is left
function M.split(line, cells)
  local head, tail, room = {}, {}, cells
  for _, chunk in ipairs(line) do
    local taken = 0
    for _, char in ipairs(vim.fn.split(chunk[1], '\\zs')) do
      if #tail == 0 and width(char) <= room then
        taken, room = taken + #char, room - width(char)
      else
        break
      end
    end
    if taken > 0 then
      head[#head + 1] = { chunk[1]:sub(1, taken), chunk[2] }
    end
    if taken < #chunk[1] then
      tail[#tail + 1] = { chunk[1]:sub(taken + 1), chunk[2] }
    end
  end
  if room > 0 then
    head[#head + 1] = { (' '):rep(room) }
  end
  return head, tail
end

--- A line without its first `bytes` bytes, which the user has typed.
---@param line infill.Chunk[]
---@param bytes integer
---@return infill.Chunk[]
function M.drop(line, bytes)
  local left = {}
  for _, chunk in ipairs(line) do
    local rest = chunk[1]:sub(bytes + 1)
    bytes = math.max(0, bytes - #chunk[1])
    if rest ~= '' then
      left[#left + 1] = { rest, chunk[2] }
    end
  end
  return left
end

return M

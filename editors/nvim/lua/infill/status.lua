--- The server's last status. Raises `User InfillStatus` and redraws the statusline when that changes.

local M = {}

---@class infill.Status the params of `infill/didChangeStatus`; see the server's documentation
---@field state string
---@field detail string
---@field progress number 0 to 1 while loading
---@field model string?
---@field note string? what the user should know of the model; empty for nothing
---@field device string?
---@field pid integer?
---@field server string? the URL to which text goes; empty where the model is on this machine
---@field serverProblem string? why that server failed last, until it answers again
---@field partner { name: string, state: string, problem: string }? the model that refines
---@field off string? why the document gets no fills; in answers to `infill/status` alone
---@field noSuggestion string? why the last request at the cursor found nothing; likewise

---@type table<integer, infill.Status?> by client
local last = {}

--- The client of the server for a buffer, or for any.
---@param buf? integer 0 for the current one
---@return vim.lsp.Client?
function M.client(buf)
  return vim.lsp.get_clients({ name = require('infill').name, bufnr = buf })[1]
end

--- The handler of `infill/didChangeStatus`.
---@param status infill.Status
---@param context lsp.HandlerContext
function M.on_change(_, status, context)
  last[context.client_id] = status
  vim.api.nvim_exec_autocmds('User', { pattern = 'InfillStatus', modeline = false, data = status })
  vim.cmd.redrawstatus({ bang = true })
end

---@param status { state: string, progress: number? }
---@return string
local function words(status)
  if status.state == 'loading' and (status.progress or 0) > 0 then
    return ('loading %d%%'):format(status.progress * 100)
  end
  return (status.state:gsub('_', ' '))
end

--- For a statusline.
---@param buf integer
---@return string
function M.text(buf)
  local client = M.client(buf)
  if not client then
    return ''
  end
  if not vim.lsp.inline_completion.is_enabled({ bufnr = buf }) then
    return 'infill: off'
  end
  local minutes = require('infill.attach').snoozed()
  if minutes > 0 then
    return ('infill: snoozed %d min'):format(minutes)
  end
  local status = last[client.id]
  return 'infill: ' .. (status and words(status) or 'stopped')
end

--- One line: the model's state, and whether this buffer gets fills.
---@param status infill.Status
---@return string
local function sentence(status)
  local said = words(status)
  if status.model and status.model ~= vim.NIL then
    said = ('%s (%s on %s)'):format(said, status.model, status.device)
  end
  if status.detail ~= '' then
    said = said .. ': ' .. status.detail
  end
  if status.server and status.server ~= vim.NIL and status.server ~= '' then
    said = said .. '; text goes to ' .. status.server
    if status.serverProblem ~= '' then
      said = said .. ', which fails: ' .. status.serverProblem
    end
  end
  if status.note and status.note ~= vim.NIL and status.note ~= '' then
    said = said .. '; ' .. status.note
  end
  local partner = status.partner
  if partner and partner ~= vim.NIL then
    local how = partner.problem ~= '' and partner.problem or partner.state == 'stopped' and 'not asked yet' or words(partner)
    said = ('%s; partner %s: %s'):format(said, partner.name, how)
  end
  if status.off and status.off ~= vim.NIL then
    said = said .. '; off for this file: ' .. status.off
  end
  if status.noSuggestion and status.noSuggestion ~= vim.NIL then
    said = said .. '; no suggestion here: ' .. status.noSuggestion
  end
  local minutes = require('infill.attach').snoozed()
  if minutes > 0 then
    said = ('%s; snoozed for %d min, until :Infill resume'):format(said, minutes)
  end
  return said
end

--- The cursor's position; where insert mode has just ended, the place where it was.
---@param encoding string
---@return lsp.Position
function M.place(encoding)
  local position = vim.lsp.util.make_position_params(0, encoding).position
  local line, cursor = vim.api.nvim_get_current_line(), vim.api.nvim_win_get_cursor(0)
  local row, col = unpack(vim.api.nvim_buf_get_mark(0, '^'))
  local is_left = vim.api.nvim_get_mode().mode == 'n' and row == cursor[1] and col <= #line
  if is_left and vim.fn.charidx(line, col) - vim.fn.charidx(line, cursor[2]) == 1 then
    position.character = vim.str_utfindex(line, encoding, col, false)
  end
  return position
end

--- Ask the server and show its answer.
function M.show()
  local client = M.client(0) or M.client()
  if not client then
    local infill = require('infill')
    local why = 'no server runs; open a file it is meant for, or see :checkhealth infill'
    infill.notify(infill.cmd and infill.not_found(infill.cmd) or why)
    return
  elseif not M.client(0) then
    local why = vim.bo.filetype == '' and 'no filetype; for Python :setfiletype python' or 'see :checkhealth infill'
    require('infill').notify('off here: ' .. (vim.bo.buftype ~= '' and 'this buffer is no file' or why))
    return
  end
  local document = vim.lsp.util.make_text_document_params(0)
  local params = { textDocument = document, position = M.place(client.offset_encoding) }
  client:request('infill/status', params, function(error, status)
    if error then
      require('infill').notify('the server did not say how it is: ' .. error.message)
    else
      last[client.id] = status
      require('infill').notify(sentence(status), vim.log.levels.INFO)
    end
  end, 0)
end

return M

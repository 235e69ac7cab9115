-- Keeps what happens, so that a test can ask for it afterwards: each of these passes too quickly to be watched for.
said, requests, sent, drafts, states = {}, {}, {}, {}, {}
neovims_notify, vim.notify = vim.notify, function(message) table.insert(said, message) end
local function watch(event, pattern, note)
  vim.api.nvim_create_autocmd(event, { pattern = pattern, callback = function(args) note(args.data) end })
end
watch('LspRequest', nil, function(data)
  table.insert(requests, data.request.type .. ' ' .. data.request.method)
end)
watch('LspNotify', nil, function(data)
  if vim.startswith(data.method, 'infill/') then table.insert(sent, { data.method, data.params }) end
end)
watch('User', 'InfillDraft', function(data) table.insert(drafts, data) end)
watch('User', 'InfillStatus', function(data) table.insert(states, data.state) end)

function shown_marks(name, buffer)
  local space = vim.api.nvim_get_namespaces()[name]
  local shown = {}
  for _, mark in ipairs(space and vim.api.nvim_buf_get_extmarks(buffer, space, 0, -1, { details = true }) or {}) do
    local text = ''
    for _, chunk in ipairs(mark[4].virt_text or {}) do text = text .. chunk[1] end
    for _, line in ipairs(mark[4].virt_lines or {}) do
      text = text .. '\n'
      for _, chunk in ipairs(line) do text = text .. chunk[1] end
    end
    shown[#shown + 1] = text
  end
  return shown
end

function screen_rows()
  vim.cmd.redraw()
  local rows = {}
  for row = 1, vim.o.lines do
    local cells = {}
    for column = 1, vim.o.columns do cells[column] = vim.fn.screenstring(row, column) end
    rows[row] = (table.concat(cells):gsub('%s+$', ''))
  end
  return rows
end

-- What the server says of itself; empty while there is none.
function server_status()
  local client = vim.lsp.get_clients({ name = 'infill', bufnr = 0 })[1]
  if not client or not client.initialized then return {} end
  local params = { textDocument = vim.lsp.util.make_text_document_params(0) }
  local answer = client:request_sync('infill/status', params, 10000, 0)
  local said = answer and answer.result or {}
  return { state = said.state, pid = said.pid, detail = said.detail, model = said.model }
end

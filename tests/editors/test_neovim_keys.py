"""Random keys in Neovim, against a slow model: the text is always what a person expects, and no error appears.

INFILL_TEST_SEED=N has the same sequences again, INFILL_TEST_KEYS_ALL=1 all of them.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.editors import keys
from tests.editors.conftest import StartNeovim
from tests.editors.neovim import SNIPPET, Neovim
from tests.editors.partner import Partner
from tests.editors.places import until

SEQUENCES = range(keys.ALL if keys.IS_ALL else keys.ALL // 2)
PLAIN_TYPING = "noautoindent indentexpr= noexpandtab softtabstop=0 nosmarttab textwidth=0 formatoptions="
WATCH = """
local function text(buf)
  return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, true), '\\n') .. '\\n'
end
local function marks(name)
  local space = vim.api.nvim_get_namespaces()[name]
  return space and vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true }) or {}
end
local function ghost()
  local mark = marks('nvim.lsp.inline_completion')[1]
  if not mark then return '', 0 end
  local col = vim.api.nvim_win_get_cursor(0)[2]
  local same = vim.api.nvim_get_current_line():sub(col + 1, mark[3]) -- what stands there already is not drawn again
  local lines = { same .. mark[4].virt_text[1][1] }
  for _, line in ipairs(mark[4].virt_lines or {}) do lines[#lines + 1] = line[1][1] end
  local item = vim.lsp._capability.all.inline_completion.active[vim.api.nvim_get_current_buf()].current
  return table.concat(lines, '\\n'), item.range.end_col - #item.command.arguments[3]
end
local function offer()
  local old, new = unpack(marks('infill.next_edit'))
  if old and new then
    return { old[2], old[3], old[4].end_row, old[4].end_col, new[4].virt_text[1][1] }
  end
end
seen = {}
local is_command = false
vim.on_key(function(_, typed)
  if typed == '' then return end
  local key = vim.fn.keytrans(typed)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  local shown, tail = ghost()
  if is_command then col = -1 end
  is_command = key == '<C-O>'
  local was = { key = key, text = text(0), row = row - 1, col = col, ghost = shown, tail = tail, offer = offer() }
  table.insert(seen, was)
end)
function from_outside(number)
  local line, at, gone = unpack(({ { 'import re', 0, 0 }, { '# noted', 4, 0 }, { 'import sys, io', 0, 1 } })[number])
  local before = text(0)
  vim.api.nvim_buf_set_lines(0, at, at + gone, false, { line })
  table.insert(seen, { key = '(outside)', text = before, after = text(0) })
end
function save()
  local before = text(0)
  vim.cmd('silent write')
  table.insert(seen, { key = '(save)', text = before, after = text(0) })
end
vim.api.nvim_create_autocmd('BufWritePre', { callback = function() -- a formatter
  local cursor = vim.api.nvim_win_get_cursor(0)
  for row, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, true)) do
    local bare = line:gsub('%s+$', '')
    if bare ~= line then vim.api.nvim_buf_set_lines(0, row - 1, row, true, { bare }) end
  end
  pcall(vim.api.nvim_win_set_cursor, 0, cursor)
end })
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("configuration", ["plugin", "lines"])
def test_keys(start_neovim: StartNeovim, plugin_init: Path, model: Partner, configuration: str) -> None:
    model.completes(keys.CODE)
    neovim = start_neovim("\n", plugin_init if configuration == "plugin" else SNIPPET).attached()
    neovim.lua(WATCH)
    taken = 0
    for number in SEQUENCES[configuration == "lines" :: 2]:
        seen = typed(neovim, number)
        errors = re.findall(r".*(?:E\d+:|Error|traceback).*", neovim.messages)  # what is undone has messages, too
        assert (errors, neovim.said, str(neovim.rpc.vvars["errmsg"])) == ([], [], ""), (keys.SEED, number)
        for wrong in keys.unexpected(seen, neovim.text):
            pytest.fail(f"sequence {number} of INFILL_TEST_SEED={keys.SEED}: {wrong}")
        taken += sum(each.key == "<Tab>" and bool(each.ghost) for each in seen)
    assert taken, "no suggestion was ever taken"


def typed(neovim: Neovim, number: int) -> list[keys.Seen]:
    """What was seen of a sequence, typed into a file of its own."""
    name = Path(str(neovim.rpc.current.buffer.name)).with_name(f"keys_{number}.py")
    name.write_text(keys.TEXT)
    neovim.rpc.command(f"silent edit! {name} | setlocal {PLAIN_TYPING}")
    neovim.lua("seen = {}")
    neovim.type("Go")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "i", "text is inserted")
    neovim.lua("seen = {}")
    for step in keys.sequence(number):
        neovim.lua("vim.wait(...)", step.pause_ms)
        if step.keys == keys.OUTSIDE:
            neovim.lua("from_outside(...)", 1 + number % 3)
        elif step.keys == keys.SAVE:
            neovim.lua("save()")
        else:
            neovim.type(step.keys)
    neovim.lua("vim.wait(100)")
    seen = [_seen(each) for each in neovim.lua("return seen")]
    neovim.type("<Esc>")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "n", "insert mode is left")
    return seen


def _seen(entry: dict[str, Any]) -> keys.Seen:
    offer = entry.get("offer")
    return keys.Seen(**{**entry, "offer": tuple(offer) if offer else None})

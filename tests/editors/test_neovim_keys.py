"""Random keys in Neovim, against a slow model: the text is always what a person expects, and no error appears.

What is expected is plain typing, plus what was on the screen when it was taken. A sequence is a list of `Step`s. Neovim
itself writes down what it sees before it handles each key: the text, the cursor and what is shown. `unexpected`
compares each of these texts with what the key before it should have led to. INFILL_TEST_SEED=N has the same sequences
again, INFILL_TEST_KEYS_ALL=1 all of them.
"""

import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import SNIPPET, Neovim
from tests.editors.partner import Partner
from tests.editors.places import until

SEED = int(os.environ.get("INFILL_TEST_SEED") or random.randrange(1 << 32))
IS_ALL = bool(os.environ.get("INFILL_TEST_KEYS_ALL"))
ALL = 60
CODE = (
    "import os",
    "total = count + 1",
    "count = total * 2",
    "return os.path.dirname(path)",
    "return os.path.getsize(path)",
    "for name in names:",
    "print(total, count)",
    "if path in names:",
    "names.append(path)",
)
TEXT = "import sys\n\n\ndef size(path):\n    count = 1\n    total = count\n    names = [path, count]\n"
OUTSIDE, SAVE = "(outside)", "(save)"
_SLIPS = "xqz"
_TOGETHER = ("z<Tab>", "<Tab><Tab>", "<CR><Tab>", "<BS><Tab>", "<Tab>)", "<BS><BS><BS>")


@dataclass(frozen=True)
class Step:
    """`keys` that come together, in Neovim's notation, after a pause; or an edit from outside, or a save."""

    pause_ms: int
    keys: str


def sequence(number: int) -> list[Step]:
    """The steps of one sequence; `SEED` and its number decide."""
    chance = random.Random(SEED * ALL + number)
    steps: list[Step] = []

    def add(keys: str, *, thinks: bool = False) -> None:
        steps.append(Step(chance.randint(600, 1200) if thinks else chance.randint(20, 200), keys))

    while len(steps) < 40:
        line = chance.choice(CODE)
        for character in line[: chance.randint(1, len(line))]:
            if chance.random() < 0.04:
                add(chance.choice(_SLIPS))
                add("<BS>")
            add(character)
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                add("<Tab>", thinks=True)
            case 4:
                add(chance.choice(_TOGETHER), thinks=True)
            case 5:
                add("<C-o>u", thinks=chance.random() < 0.5)
            case 6 | 7:
                add(OUTSIDE, thinks=chance.random() < 0.5)
                add("<Tab>")
            case 8:
                add(SAVE, thinks=chance.random() < 0.5)
            case 9:
                add("<Tab>")
        add("<CR>")
    return steps


@dataclass
class Seen:
    """What an editor wrote down before it handled `key`: the cursor as line and column, from 0.

    `ghost` is the suggestion at the cursor, `tail` how much behind the cursor it replaces. `offer` is a next edit: its
    place and text. `after` is the text after an edit that was no key.
    """

    key: str
    text: str
    row: int = 0
    col: int = 0
    ghost: str = ""
    tail: int = 0
    offer: tuple[int, int, int, int, str] | None = None
    after: str | None = None


def unexpected(seen: Sequence[Seen], last: str) -> Iterator[str]:
    """Where the text is not what the key before should have led to; `last` is the text in the end."""
    known = [TEXT]
    drawn, is_alone = Seen("", ""), True
    for number, each in enumerate(seen):
        known += [each.text, each.after or each.text]
        drawn = each if each.ghost != drawn.ghost else drawn
        each = replace(each, ghost=_left(drawn, each))
        found = seen[number + 1].text if number + 1 < len(seen) else last
        if each.col < 0 and not is_alone:
            known.append(found)  # Neovim's undo is muddled by edits from outside while text is inserted
        is_alone = each.after is None and (is_alone or each.col < 0)
        wanted = _wanted(each, known)
        if found not in wanted:
            before = [(one.key, one.ghost) for one in seen[max(number - 8, 0) : number + 1]]
            yield f"{each} led to\n{found!r}, not to\n{wanted[-1]!r}\nafter {before}"


def _left(drawn: Seen, seen: Seen) -> str:
    """What is left of a ghost that was drawn some keys before; nothing is drawn between keys that come together."""
    head, behind = _halves(drawn)
    now, rest = _halves(seen)
    typed = now.removeprefix(head)
    fits = now.startswith(head) and behind == rest and drawn.ghost.startswith(typed)
    return drawn.ghost[len(typed) :] if fits else ""


def _halves(seen: Seen) -> tuple[str, str]:
    """The text before and behind the cursor."""
    at = len("".join(seen.text.splitlines(keepends=True)[: seen.row])) + seen.col
    return seen.text[:at], seen.text[at:]


def _wanted(seen: Seen, before: Sequence[str]) -> Sequence[str]:
    """The texts that a key may lead to: one, but for an undo, which leads to any earlier one."""
    if seen.after is not None:
        return [seen.after]
    text, at = seen.text, len(_halves(seen)[0])
    match seen.key:
        case "u" if seen.col < 0:
            return before
        case "<Tab>" if seen.ghost:
            return [text[:at] + seen.ghost + text[at + seen.tail :]]
        case "<Tab>" if seen.offer:
            return [_edited(text, seen.row, seen.offer)]
        case "<Tab>" | "<CR>" | "<Space>" | "<lt>":
            return [text[:at] + {"<Tab>": "\t", "<CR>": "\n", "<Space>": " ", "<lt>": "<"}[seen.key] + text[at:]]
        case "<BS>":
            return [text[: max(at - 1, 0)] + text[at:]]
        case "<C-O>" | "<Esc>":
            return [text]
        case typed:
            assert len(typed) == 1, typed
            return [text[:at] + typed + text[at:]]


def _edited(text: str, row: int, offer: tuple[int, int, int, int, str]) -> str:
    """The text after Tab where a next edit is shown, which is only taken on its own line."""
    lines = text.splitlines(keepends=True)
    first, start, last, end, new = offer
    if row != first:
        return text
    begin, stop = (len("".join(lines[:line])) + col for line, col in ((first, start), (last, end)))
    return text[:begin] + new + text[stop:]


SEQUENCES = range(ALL if IS_ALL else ALL // 2)
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
    model.completes(CODE)
    neovim = start_neovim("\n", plugin_init if configuration == "plugin" else SNIPPET).attached()
    neovim.lua(WATCH)
    taken = 0
    for number in SEQUENCES[configuration == "lines" :: 2]:
        seen = typed(neovim, number)
        errors = re.findall(r".*(?:E\d+:|Error|traceback).*", neovim.messages)  # what is undone has messages, too
        assert (errors, neovim.said, str(neovim.rpc.vvars["errmsg"])) == ([], [], ""), (SEED, number)
        for wrong in unexpected(seen, neovim.text):
            pytest.fail(f"sequence {number} of INFILL_TEST_SEED={SEED}: {wrong}")
        taken += sum(each.key == "<Tab>" and bool(each.ghost) for each in seen)
    assert taken, "no suggestion was ever taken"


def typed(neovim: Neovim, number: int) -> list[Seen]:
    """What was seen of a sequence, typed into a file of its own."""
    name = Path(str(neovim.rpc.current.buffer.name)).with_name(f"keys_{number}.py")
    name.write_text(TEXT)
    neovim.rpc.command(f"silent edit! {name} | setlocal {PLAIN_TYPING}")
    neovim.lua("seen = {}")
    neovim.type("Go")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "i", "text is inserted")
    neovim.lua("seen = {}")
    for step in sequence(number):
        neovim.lua("vim.wait(...)", step.pause_ms)
        if step.keys == OUTSIDE:
            neovim.lua("from_outside(...)", 1 + number % 3)
        elif step.keys == SAVE:
            neovim.lua("save()")
        else:
            neovim.type(step.keys)
    neovim.lua("vim.wait(100)")
    seen = [_seen(each) for each in neovim.lua("return seen")]
    neovim.type("<Esc>")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "n", "insert mode is left")
    return seen


def _seen(entry: dict[str, Any]) -> Seen:
    offer = entry.get("offer")
    return Seen(**{**entry, "offer": tuple(offer) if offer else None})

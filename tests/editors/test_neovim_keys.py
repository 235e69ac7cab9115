"""Random keys in Neovim, against a slow model: the text is always what a person expects, and no error appears.

What is expected is plain typing, plus what was on the screen when it was taken. A sequence is a list of `Step`s. Neovim
itself writes down what it sees before it handles each key: the text, the cursor and what is shown. `unexpected`
compares each of these texts with what the key before it should have led to. INFILL_TEST_SEED=N has other sequences.
"""

import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import SNIPPET, Neovim
from tests.editors.partner import Partner
from tests.editors.places import until

SEED = int(os.environ.get("INFILL_TEST_SEED") or 3876877905)  # here undo took the line of an answer away
SEQUENCES = range(30)
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
    chance = random.Random(SEED * 60 + number)
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


PLAIN_TYPING = "noautoindent indentexpr= noexpandtab softtabstop=0 nosmarttab textwidth=0 formatoptions="
WATCH = Path(__file__).with_name("neovim_keys.lua").read_text(encoding="utf-8")


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
    seen = [Seen(**{**each, "offer": tuple(each.get("offer") or ()) or None}) for each in neovim.lua("return seen")]
    neovim.type("<Esc>")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "n", "insert mode is left")
    return seen

"""Changes like the one that was made: where they are proposed, and how they are written there."""

import pytest

from inference.engine.next_edit.judging import places
from inference.engine.next_edit.proposals import lines_of, proposals
from inference.messages import Hunk


def proposed(before: str, line: int, new: str, count: int = 1) -> list[str]:
    lines = before.splitlines(keepends=True)
    old = "".join(lines[line : line + count])
    text = "".join((*lines[:line], new, *lines[line + count :]))
    hunk = Hunk(line, old, new)
    return [one.text for place in places([*proposals(lines_of(text), hunk)], (hunk,)) for one in place]


@pytest.mark.parametrize(
    ("before", "new", "wanted"),
    [
        ("a = _table[0]\nb = len(_table)\n", "a = table[0]\n", "b = len(table)\n"),
        (
            "if code[0] == '1':\n    pass\nif code[0] == '3':\n",
            "if code.startswith('1'):\n",
            "if code.startswith('3'):\n",
        ),
        ("x: Optional[int] = 1\ny: Optional[str] = 2\n", "x: int | None = 1\n", "y: str | None = 2\n"),
        (
            "if isstr(a):\n    pass\nelif isstr(b) and c:\n",
            "if isinstance(a, str):\n",
            "elif isinstance(b, str) and c:\n",
        ),
    ],
)
def test_the_same_change_elsewhere(before: str, new: str, wanted: str) -> None:
    assert wanted in proposed(before, 0, new)


def test_a_change_of_several_lines_moves_with_its_indentation() -> None:
    before = "if a:\n    raise E(1)\nclass C:\n    if b:\n        raise E(2)\n"
    new = "    msg = 1\n    raise E(msg)\n"
    assert "        msg = 2\n        raise E(msg)\n" not in proposed(before, 1, new)
    same = "if a:\n    raise E(1)\nclass C:\n    if b:\n        raise E(1)\n"
    assert "        msg = 1\n        raise E(msg)\n" in proposed(same, 1, new)


@pytest.mark.parametrize("new", ["a = 1  # two\n", "# one more\na = 1\n", "a = 1\n"])
def test_nothing_follows_from_comments(new: str) -> None:
    assert proposed("a = 1\nb = 1\na = 1\n", 0, new) == []


def test_what_was_changed_is_left_alone() -> None:
    text = "new(1)\nnew(2)\nold(3)\n"
    hunks = (Hunk(0, "old(1)\n", "new(1)\n"), Hunk(1, "old(2)\n", "new(2)\n"))
    assert {place[0].line for place in places([*proposals(lines_of(text), hunks[1])], hunks)} == {2}


@pytest.mark.parametrize("text", ["", "\n", "x", "\x0c\na\x0bb\n", "\u2028\na = 1\n"])
def test_odd_texts_are_survived(text: str) -> None:
    for hunk in (Hunk(0, "a = 1\n", ""), Hunk(7, "", "b\n"), Hunk(0, "(((\n", ")\n")):
        assert all(one.line < one.end for one in proposals(lines_of(text), hunk))


def test_far_away_nothing_is_looked_for() -> None:
    text = "new(1)\n" + "\n" * 1000 + "old(2)\n"
    assert list(proposals(lines_of(text), Hunk(0, "old(1)\n", "new(1)\n"))) == []

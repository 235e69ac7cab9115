"""The latest changes, proposed for lines like the changed ones."""

import pytest

from inference.messages import MAX_PROPOSALS, MAX_PROPOSED_CHARACTERS, Hunk
from lsp_server.next_edit.alike_edits import alike_line_edits


def proposed(before: str, line: int, new: str) -> list[str]:
    lines = before.splitlines(keepends=True)
    text = "".join((*lines[:line], new, *lines[line + 1 :]))
    return [edit.text for edit in alike_line_edits(text, [Hunk(line, lines[line], new)])]


@pytest.mark.parametrize(
    ("before", "new", "wanted"),
    [
        ("a = _table[0]\nb = _table[1]\n", "a = table[0]\n", "b = table[1]\n"),
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
        ("a = f(1)\n\n\n    b  = f(1)\r\n", "a = f(1, 2)\n", "    b  = f(1, 2)\r\n"),
    ],
)
def test_the_same_change_elsewhere(before: str, new: str, wanted: str) -> None:
    assert wanted in proposed(before, 0, new)


def test_a_change_of_several_lines_moves_with_its_indentation() -> None:
    before = "if a:\n    raise E(1)\nclass C:\n    if b:\n        raise E(2)\n"
    new = "    msg = 1\n    raise E(msg)\n"
    assert proposed(before, 1, new) == []
    assert "        msg = 1\n        raise E(msg)\n" in proposed(before.replace("2", "1"), 1, new)


def test_what_was_changed_is_left_alone() -> None:
    text = "new(1)\nnew(2)\nold(3)\n"
    hunks = [Hunk(0, "old(1)\n", "new(1)\n"), Hunk(1, "old(2)\n", "new(2)\n")]
    assert {text[edit.start : edit.end] for edit in alike_line_edits(text, hunks)} == {"old(3)\n"}


@pytest.mark.parametrize("text", ["", "\n", "x", "\x0c\na\x0bb\n", "\u2028\na = 1\n"])
def test_odd_texts_are_survived(text: str) -> None:
    for hunk in (Hunk(0, "a = 1\n", ""), Hunk(7, "", "b\n"), Hunk(0, "(((\n", ")\n")):
        assert all(0 <= edit.start < edit.end <= len(text) for edit in alike_line_edits(text, [hunk]))


def test_proposals_are_few_and_small_and_not_far() -> None:
    old, new = "x = old(1)\n", "x = new(1)\n"
    near = alike_line_edits(new + old * 100, [Hunk(0, old, new)])
    assert 0 < len(near) <= MAX_PROPOSALS
    assert alike_line_edits(new + "\n" * 1000 + old, [Hunk(0, old, new)]) == []
    long = f"x = old(1, {'a' * MAX_PROPOSED_CHARACTERS})\n"
    assert alike_line_edits(new + long, [Hunk(0, old, new)]) == []


def test_long_lists_are_not_compared() -> None:
    old, new = (f"{name} = [{', '.join(map(str, range(400)))}]\n" for name in "ab")
    assert alike_line_edits(new + old * 600, [Hunk(0, old, new)]) == []

"""Which edits that the rules found or a model proposed are offered."""

import pytest

from lsp_server.next_edit.edits import NextEdit
from lsp_server.next_edit.finder import find_next_edits
from lsp_server.next_edit.judge import EditValidator
from lsp_server.syntax.parsing import Source

TEXT = "total = 1\nprint(total)\nprint(count)\n"


@pytest.mark.parametrize("language", ["python", ""])
@pytest.mark.parametrize(("text", "is_offered"), [("2", True), ("2\u200b", False), ("'\U000e0041'", False)])
def test_edit_with_invisible_characters_is_not_offered(text: str, is_offered: bool, language: str) -> None:
    source = Source.parse(language, "x = 1\n")
    assert bool(EditValidator(source).edits_to_offer([NextEdit(4, 5, text)])) is is_offered


def test_edit_that_breaks_the_syntax_is_not_offered() -> None:
    assert EditValidator(Source.parse("python", "x = 1\n")).edits_to_offer([NextEdit(4, 5, "(")]) == []


@pytest.mark.parametrize(
    ("start", "end", "text", "is_offered"),
    [
        pytest.param(0, 9, "count = 1", False, id="the text of a line"),
        pytest.param(16, 21, "count", False, id="a name in place of its replacement"),
        pytest.param(29, 34, "total", True, id="the user's own change again"),
    ],
)
def test_edit_that_undoes_the_users_is_not_offered(start: int, end: int, text: str, *, is_offered: bool) -> None:
    judge = EditValidator(Source.parse("python", TEXT), ["count = 1\nprint(total)\nprint(count)\n"])
    assert bool(judge.edits_to_offer([NextEdit(start, end, text)])) is is_offered


def test_rules_do_not_undo_what_they_followed() -> None:
    texts = ["def f(a, b): ...\nf(1, 2)\nf(2, 1)\n", "def f(b, a): ...\nf(1, 2)\nf(2, 1)\n"]
    texts.append(texts[-1].replace("f(1, 2)", "f(2, 1)", 1))
    assert find_next_edits(Source.parse("python", "def f(b, a): ...\nf(2, 1)\nf(1, 2)\n"), texts[::-1]) == []

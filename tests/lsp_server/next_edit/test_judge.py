"""Which edits that were found or proposed are offered."""

import pytest

from lsp_server.next_edit.finder import next_edits, offerable
from lsp_server.next_edit.renames import NextEdit
from lsp_server.syntax.parsing import Source


@pytest.mark.parametrize("language", ["python", ""])
@pytest.mark.parametrize(("text", "is_offered"), [("2", True), ("2\u200b", False), ("'\U000e0041'", False)])
def test_edit_with_unseen_characters_is_not_offered(text: str, is_offered: bool, language: str) -> None:
    source = Source.parse(language, "x = 1\n")
    assert bool(offerable(source, [NextEdit(4, 5, text, "a test")])) is is_offered


def test_edit_that_breaks_the_parse_is_not_offered() -> None:
    assert offerable(Source.parse("python", "x = 1\n"), [NextEdit(4, 5, "(", "a test")]) == []


def test_edit_that_undoes_one_is_not_offered() -> None:
    texts = ["def f(a, b): ...\nf(1, 2)\nf(2, 1)\n", "def f(b, a): ...\nf(1, 2)\nf(2, 1)\n"]
    texts.append(texts[-1].replace("f(1, 2)", "f(2, 1)", 1))
    assert next_edits(Source.parse("python", "def f(b, a): ...\nf(2, 1)\nf(1, 2)\n"), texts[::-1]) == []

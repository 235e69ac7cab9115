"""Which of a model's proposed edits are offered."""

import pytest

from lsp_server.next_edit.finder import offerable
from lsp_server.next_edit.renames import NextEdit
from lsp_server.syntax.source import ParsedText


@pytest.mark.parametrize("language", ["python", ""])
@pytest.mark.parametrize(("text", "is_offered"), [("2", True), ("2\u200b", False), ("'\U000e0041'", False)])
def test_edit_with_unseen_characters_is_not_offered(text: str, is_offered: bool, language: str) -> None:
    source = ParsedText.parse(language, "x = 1\n")
    assert bool(offerable(source, [NextEdit(4, 5, text, "a test")])) is is_offered


def test_edit_that_breaks_the_parse_is_not_offered() -> None:
    source = ParsedText.parse("python", "x = 1\n")
    assert offerable(source, [NextEdit(4, 5, "(", "a test")]) == []

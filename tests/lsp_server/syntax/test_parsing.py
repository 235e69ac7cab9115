"""Only a text of a reasonable length, in a language with a grammar, gets a tree."""

from lsp_server.syntax import parsing
from lsp_server.syntax.parsing import ParsedText, well_formed


def test_a_text_that_is_too_long_gets_no_tree() -> None:
    longest = "#" * parsing.MAX_PARSED_CHARACTERS
    assert parsing.parse("python", longest) is not None
    assert parsing.parse("python", longest + "#") is None


def test_lone_surrogate_is_replaced() -> None:
    text = "x = '\ud83d'"
    assert ParsedText.parse("python", text).tree is not None
    assert well_formed(text) == "x = '\ufffd'"
    assert well_formed("x = '😀'") == "x = '😀'"

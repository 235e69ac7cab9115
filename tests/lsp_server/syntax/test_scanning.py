"""Brackets and comments are found in a piece of text by its language's table, without a tree."""

import pytest

from inference.ending import unpaired
from lsp_server.syntax.languages import PLAIN_TEXT, table_of
from lsp_server.syntax.scanning import find_brackets, trailing_comment_start


@pytest.mark.parametrize(
    ("language_id", "text", "brackets"),
    [
        ("python", "f('(', \"[\") # {", "()"),
        ("python", "'''(\n(''' [", "["),
        ("python", "x = {# (", "{"),
        ("rust", '&\'a (r#"("#)', "()"),
        ("javascript", "`(${1})` /* ( */ [ // (", "["),
        ("javascript", "if (x) {// (", "(){"),
        ("lua", "--[[ ( ]] f() -- (", "()"),
        ("html", "<!-- ( --> [", "["),
        ("shellscript", "f ${#x} $# (a) # (", "{}()"),
        ("klingon", "# ( // (", "(("),
    ],
)
def test_brackets_in_strings_and_comments_are_not_found(language_id: str, text: str, brackets: str) -> None:
    assert "".join(bracket for _, bracket in find_brackets(text, table_of(language_id))) == brackets


@pytest.mark.parametrize(
    ("language_id", "text", "start"),
    [
        *(("python", "x = '#' # note", 8), ("python", "x = 1", -1), ("lua", "--[[ a ]] b -- c", 12)),
        *(("shellscript", "echo $# # args", 8), ("html", "<!-- a -->", -1), ("klingon", "# a", -1)),
        pytest.param("python", "a  # b\nc", -1, id="one on an earlier line"),
    ],
)
def test_a_line_comment_starts_at_a_mark_outside_strings(language_id: str, text: str, start: int) -> None:
    assert trailing_comment_start(text, table_of(language_id)) == start


def test_brackets_without_a_partner_are_found_on_both_sides() -> None:
    assert unpaired(find_brackets("f(a, [b)", PLAIN_TEXT)) == ([(7, ")")], [(1, "("), (5, "[")])
    assert unpaired(find_brackets("a) [b] }", PLAIN_TEXT)) == ([(1, ")"), (7, "}")], [])

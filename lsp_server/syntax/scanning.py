"""Finds brackets and comments in any piece of text without a tree: recognises strings lexically."""

import re
from collections.abc import Iterator
from functools import cache

from lsp_server.syntax.languages import LanguageTable

_BRACKETS = "()[]{}"


@cache
def _scanner(table: LanguageTable) -> re.Pattern[str]:
    """Matches strings, comments and brackets. Only a line comment is a group of its own."""
    blocks = [rf"{re.escape(opener)}(?s:.*?){re.escape(closer)}" for opener, closer in table.block_comments]
    unless_after = f"(?<![{re.escape(table.not_before_comment)}])" if table.not_before_comment else ""
    comments = [rf"({unless_after}{re.escape(table.line_comment)}[^\r\n]*)"] if table.line_comment else []
    return re.compile("|".join((table.string_pattern, *blocks, *comments, f"[{re.escape(_BRACKETS)}]")))


def find_brackets(text: str, table: LanguageTable) -> Iterator[tuple[int, str]]:
    """Each bracket outside strings and comments, with its offset."""
    for match in _scanner(table).finditer(text):
        if match.group() in _BRACKETS:
            yield match.start(), match.group()


def trailing_comment_start(text: str, table: LanguageTable) -> int:
    """The start of the line comment in which `text` ends; -1: there is none."""
    comments = (match for match in _scanner(table).finditer(text) if match.lastindex)
    return next((match.start() for match in comments if match.end() == len(text)), -1)

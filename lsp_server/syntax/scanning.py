"""Finds brackets and comments in any piece of text without a tree: recognises strings by their look."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeVar

from lsp_server.syntax.languages import CLOSERS, LanguageTable

_BRACKETS = "()[]{}"
_CLOSING = frozenset(CLOSERS.values())
_T = TypeVar("_T")


@cache
def _scanner(table: LanguageTable) -> re.Pattern[str]:
    """Matches strings, comments and brackets. Only a line comment is a group of its own."""
    blocks = [rf"{re.escape(opener)}(?s:.*?){re.escape(closer)}" for opener, closer in table.block_comments]
    unless_after = f"(?<![{re.escape(table.not_before_comment)}])" if table.not_before_comment else ""
    comments = [rf"({unless_after}{re.escape(table.line_comment)}[^\r\n]*)"] if table.line_comment else []
    return re.compile("|".join((table.quoted, *blocks, *comments, f"[{re.escape(_BRACKETS)}]")))


def brackets_of(text: str, table: LanguageTable) -> Iterator[tuple[int, str]]:
    """Each bracket outside strings and comments, with its offset."""
    for match in _scanner(table).finditer(text):
        if match.group() in _BRACKETS:
            yield match.start(), match.group()


def open_quote(text: str, table: LanguageTable) -> int:
    """The start of an unterminated string in `text`, a part of one line; -1: there is none."""
    blanked = _scanner(table).sub(lambda match: " " * len(match.group()), text)
    offsets = (blanked.find(quote) for quote in table.quotes)
    return min((offset for offset in offsets if offset >= 0), default=-1)


def comment_at_end(text: str, table: LanguageTable) -> int:
    """The start of the line comment in which `text` ends; -1: there is none."""
    comments = (match for match in _scanner(table).finditer(text) if match.lastindex)
    return next((match.start() for match in comments if match.end() == len(text)), -1)


def unclosed_brackets(text: str, table: LanguageTable) -> list[tuple[int, str]]:
    """The brackets that `text` opens but does not close, with their offsets."""
    return unmatched_openers(brackets_of(text, table))


def unopened_brackets(text: str, table: LanguageTable) -> list[str]:
    """The closing brackets in `text` that have no opening bracket in it."""
    return unmatched_closers(bracket for _, bracket in brackets_of(text, table))


def unmatched_openers(tokens: Iterable[tuple[_T, str]]) -> list[tuple[_T, str]]:
    """The opening brackets among tokens, given with their texts, whose partners do not follow."""
    stack: list[tuple[_T, str]] = []
    for token, text in tokens:
        if text in CLOSERS:
            stack.append((token, text))
        elif stack and CLOSERS[stack[-1][1]] == text:
            stack.pop()
    return stack


def unmatched_closers(texts: Iterable[str]) -> list[str]:
    """The closing brackets among tokens that no opening bracket precedes."""
    depth, closers = 0, []
    for text in texts:
        if text in CLOSERS:
            depth += 1
        elif text in _CLOSING:
            if not depth:
                closers.append(text)
            depth = max(depth - 1, 0)
    return closers

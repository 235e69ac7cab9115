"""Parses a text with tree-sitter, whole or after an edit."""

import re
from itertools import islice

from tree_sitter import Tree

from lsp_server.syntax.byte_offsets import byte_and_point, encode
from lsp_server.syntax.languages import LanguageTable, grammar_of, table_of
from lsp_server.syntax.limit import Limit, parse_unless
from lsp_server.syntax.mending import parse_mended

MAX_PARSED_CHARACTERS = 2_000_000
"""A longer text gets no tree, because its first parse would block typing for a good part of a second."""

LONG_CHARACTERS = 20_000
"""In a shorter text a broken line is not mended, because the parse is fast anyway."""

MAX_PARSE_S = 2.0
"""In processor time: a text that takes longer gets no tree. The longest one takes half of that if it is sound."""


def parse(
    language_id: str, text: str, old_tree: Tree | None = None, edited: int | None = None, limit: Limit | None = None
) -> Tree | None:
    """The tree of `text`; None without a grammar, beyond the limits, or if parsing it would crash.

    `old_tree` makes it fast: that of an earlier text, after `edit_tree` for each edit since. `edited`, the end of the
    last edit, keeps a long text fast that this edit broke: see `mending`.
    """
    language = grammar_of(language_id)
    if language is None or len(text) > MAX_PARSED_CHARACTERS or _is_harmful(table_of(language_id), text):
        return None
    limit = limit or Limit(MAX_PARSE_S)
    if old_tree is not None and edited is not None and len(text) > LONG_CHARACTERS:
        mended = parse_mended(language, table_of(language_id), text, old_tree, edited)
        if mended is not None:
            return mended
    return parse_unless(lambda _: limit.is_reached(), language, encode(text), old_tree)


def _is_harmful(table: LanguageTable, text: str) -> bool:
    """Whether parsing the text would crash this process, or take all its memory."""
    return any(
        next(islice(re.finditer(pattern, text, re.MULTILINE), most, None), None) is not None
        for pattern, most in table.harmful
    )


def edit_tree(tree: Tree, text: str, start: int, end: int, replacement: str) -> None:
    """Tells `tree`, the tree of `text`, that [start, end) is replaced. Changes it: pass a copy if it is shared."""
    start_byte, start_row, start_column = byte_and_point(text, start)
    old_byte, old_row, old_column = byte_and_point(text, end)
    data = encode(replacement)
    rows = data.count(b"\n")
    tail = len(data) - data.rfind(b"\n") - 1
    new_column = tail if rows else start_column + len(data)
    tree.edit(
        start_byte,
        old_byte,
        start_byte + len(data),
        (start_row, start_column),
        (old_row, old_column),
        (start_row + rows, new_column),
    )

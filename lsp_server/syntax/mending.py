"""Parses a long text fast while the user types a line of it.

After an open bracket, tree-sitter tries to make sense of everything that follows: 30 ms for half of 5,000 lines. So we
soon give up, parse the text as if the brackets opened on the cursor's line were closed there, and remove our additions
from the tree: they stay as tokens without any width.
"""

from collections.abc import Callable
from time import perf_counter

from tree_sitter import Language, Tree

from lsp_server.syntax.byte_offsets import encode
from lsp_server.syntax.languages import CLOSERS, LanguageTable
from lsp_server.syntax.limit import parse_unless
from lsp_server.syntax.lines import line_end, line_start
from lsp_server.syntax.scanning import open_quote, unclosed, unopened

_MAX_SLOW_STEPS = 16
_MAX_SLOW_STEPS_MENDED = 60
_SLOW_BYTES = 600
"""tree-sitter advances less than this between two of its questions if it does not reuse the old tree."""

_MAX_MS = 12.0
"""The limit for a mended text: the cost of a sound text of some thousand lines without an old tree."""

_MAX_LINE_CHARACTERS = 4000
_BEFORE_A_NAME = "+-*/%=&|<>!?:.,^~@"


def parse_mended(language: Language, table: LanguageTable, text: str, old_tree: Tree, edited: int) -> Tree | None:
    """The tree of `text`, as if the code before `edited` were closed; None if that is slow or breaks something."""
    data = encode(text)
    tree = parse_unless(_after_slow_steps(_MAX_SLOW_STEPS), language, data, old_tree)
    if tree is not None:
        return tree
    added = missing_before(text, edited, table)
    if not added:
        return None
    at = len(encode(text[:edited]))
    line = data.count(b"\n", 0, at)
    start = (line, at - data.rfind(b"\n", 0, at) - 1)
    end = (line, start[1] + len(added))
    mended = old_tree.copy()
    mended.edit(at, at, at + len(added), start, start, end)
    data = data[:at] + added.encode() + data[at:]
    was_broken = old_tree.root_node.has_error
    tree = parse_unless(_after_slow_steps(_MAX_SLOW_STEPS_MENDED), language, data, mended)
    if tree is None and was_broken:  # nothing of it can be reused until it has been mended once
        tree = parse_unless(_after_a_while(), language, data, mended)
    if tree is None or (tree.root_node.has_error and not was_broken):  # a line below may close the bracket
        return None
    tree.edit(at, at + len(added), at, start, end, start)
    return tree


def missing_before(text: str, offset: int, table: LanguageTable) -> str:
    """The closers that the expression before `offset` lacks on its line: a quote or a name, and brackets."""
    start = line_start(text, offset)
    end = line_end(text, offset)
    if end - start > _MAX_LINE_CHARACTERS:
        return ""
    before = text[start:offset].rstrip()
    quote = open_quote(before, table)
    ending = before[quote] if quote >= 0 else table.name if before and before[-1] in _BEFORE_A_NAME else ""
    still_open = [bracket for _, bracket in unclosed(before[:quote] if quote >= 0 else before, table)]
    missing = still_open[len(unopened(text[offset:end], table)) :]
    return ending + "".join(CLOSERS[bracket] for bracket in reversed(missing))


def _after_slow_steps(count: int) -> Callable[[int], bool]:
    last = slow = 0

    def give_up(offset: int) -> bool:
        nonlocal last, slow
        slow += offset - last < _SLOW_BYTES
        last = offset
        return slow > count

    return give_up


def _after_a_while() -> Callable[[int], bool]:
    until = perf_counter() + _MAX_MS / 1000
    return lambda offset: perf_counter() > until

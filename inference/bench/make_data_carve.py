"""Carves holes with a known text out of one Python file. Knows nothing of other files, models or tokens.

There are four kinds of hole: `line` is a line's content or the rest of it, `span` a part of a line with more of the
line after it, `lines` neighbouring statements, `body` a function's body after its docstring.
"""

import ast
import io
import random
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

HoleRange = tuple[int, int]
"""Character offsets of a hole: start and end."""

_LINE_CHARACTERS = range(4, 101)
_BLOCK_CHARACTERS = range(20, 401)
_BLOCK_LINES = range(2, 9)
_WHOLE_LINE_SHARE = 0.4
_TOKENS_THAT_ARE_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}
_WORD = re.compile(r"[^\W\d]{2}")


class UnparsableError(Exception):
    """The text is not Python of this interpreter."""


class CarvableFile:
    """A file's text, syntax tree and tokens. Raises UnparsableError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        try:
            self._tree = ast.parse(text)
            self._tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (SyntaxError, ValueError, RecursionError, tokenize.TokenError) as error:
            raise UnparsableError(str(error)) from error

    def holes(self, kind: str, chance: random.Random) -> list[HoleRange]:
        """All holes of a kind, in random order. Raises KeyError for a kind that is not in KINDS."""
        found = list(_MAKERS[kind](self, chance))
        chance.shuffle(found)
        return found

    def lines(self, chance: random.Random) -> Iterator[HoleRange]:
        """A line's content, or the rest of it from one of its tokens on."""
        for row in self._rows():
            first, end = row[0], self._line_end(row[0])
            start = first if len(row) == 1 or chance.random() < _WHOLE_LINE_SHARE else chance.choice(row[1:])
            if end - start in _LINE_CHARACTERS and _WORD.search(self.text, start, end):
                yield start, end

    def spans(self, chance: random.Random) -> Iterator[HoleRange]:
        """A part of a line, with at least one token on either side."""
        for row in self._rows():
            if len(row) < 3:
                continue
            first, last = sorted(chance.sample(row[1:], 2))
            end = first + len(self.text[first:last].rstrip())
            if end - first in _LINE_CHARACTERS and _WORD.search(self.text, first, end):
                yield first, end

    def statements(self, chance: random.Random) -> Iterator[HoleRange]:
        """Up to four neighbouring statements, of a plausible length for a hole."""
        for block in self._blocks():
            first = chance.randrange(len(block))
            last = min(len(block) - 1, first + chance.randrange(4))
            yield from self._block(block[first : last + 1])

    def bodies(self, _chance: random.Random) -> Iterator[HoleRange]:
        """The bodies of functions, without their docstrings."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._block(node.body[1:] if ast.get_docstring(node) is not None else node.body)

    def _rows(self) -> Iterator[list[int]]:
        """The start of each token, for each line of code. Leaves out lines that are one string, which are prose."""
        rows: dict[int, list[int]] = {}
        inside: set[int] = set()
        for token in self._tokens:
            if token.start[0] != token.end[0]:
                inside.update(range(token.start[0], token.end[0] + 1))
            elif token.type == tokenize.COMMENT or (
                token.type == tokenize.STRING and token.string == token.line.strip()
            ):
                inside.add(token.start[0])
            elif token.string.strip() and token.type not in _TOKENS_THAT_ARE_LAYOUT:
                rows.setdefault(token.start[0], []).append(self._starts[token.start[0] - 1] + token.start[1])
        yield from (row for number, row in rows.items() if number not in inside)

    def _blocks(self) -> Iterator[list[ast.stmt]]:
        for node in ast.walk(self._tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                    yield block

    def _block(self, statements: Sequence[ast.stmt]) -> Iterator[HoleRange]:
        """From the first statement to the last, if their lines have nothing else on them."""
        if not statements or isinstance(statements[0], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        start = self._offset(statements[0].lineno, statements[0].col_offset)
        end = self._offset(statements[-1].end_lineno or 0, statements[-1].end_col_offset or 0)
        alone = not self.text[self._starts[statements[0].lineno - 1] : start].strip() and end == self._line_end(end)
        if alone and end - start in _BLOCK_CHARACTERS and self.text.count("\n", start, end) + 1 in _BLOCK_LINES:
            yield start, end

    def _line_end(self, offset: int) -> int:
        """The end of an offset's line, before any trailing white space."""
        end = self.text.find("\n", offset)
        line = self.text[offset : end if end >= 0 else None]
        return offset + len(line.rstrip())

    def _offset(self, row: int, column_bytes: int) -> int:
        start = self._starts[row - 1]
        line = self.text[start : self._starts[row]].encode()
        return start + len(line[:column_bytes].decode())


_MAKERS: dict[str, Callable[[CarvableFile, random.Random], Iterator[HoleRange]]] = {
    "line": CarvableFile.lines,
    "span": CarvableFile.spans,
    "lines": CarvableFile.statements,
    "body": CarvableFile.bodies,
}
KINDS = tuple(_MAKERS)

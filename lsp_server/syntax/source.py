"""The input of carving: plain text, its language, and its tree. Knows no LSP types, files or worker."""

import re
from dataclasses import dataclass
from typing import Protocol, Self

from tree_sitter import Tree

from lsp_server.syntax.parsing import parse

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Source(Protocol):
    """An immutable text to carve. `tree` is the parse of `text` (see `parsing`), or None. `uri` has the extension."""

    @property
    def uri(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def language_id(self) -> str: ...
    @property
    def tree(self) -> Tree | None: ...


@dataclass(frozen=True)
class ParsedText:
    """A text that belongs to no open document."""

    text: str
    language_id: str
    tree: Tree | None
    uri: str = ""

    @classmethod
    def parse(cls, language_id: str, text: str, uri: str = "") -> Self:
        """Parses `text`, ready for carving."""
        return cls(text, language_id, parse(language_id, text), uri)


def well_formed(text: str) -> str:
    """`text` with U+FFFD in place of each lone surrogate, which UTF-8 cannot hold and no model can read."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)

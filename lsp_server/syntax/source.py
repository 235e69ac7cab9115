"""What carving reads and what it returns: plain text, offsets and a tree. No LSP types, no files, no worker."""

from dataclasses import dataclass
from typing import Protocol

from tree_sitter import Tree

from inference.messages import HoleKind


class Source(Protocol):
    """One immutable text to carve: a document's snapshot, or `Parsed`.

    `tree` is the parse of exactly `text` (of a long one that is being typed, as `mending` says), or None where there is
    no grammar; then indentation decides. Of `uri` only the extension is looked at; it is empty for a nameless text.
    """

    @property
    def uri(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def language_id(self) -> str: ...
    @property
    def tree(self) -> Tree | None: ...


@dataclass(frozen=True)
class Parsed:
    """A text that belongs to no open document; see `carve.read`."""

    text: str
    language_id: str
    tree: Tree | None
    uri: str = ""


@dataclass(frozen=True)
class Span:
    """A hole: the fill replaces `text[start:end]`, which is empty for an insertion, and begins with `starts_with`.

    Offsets are `str` indices. `starts_with` is what the user has typed of a word, or the line end and indentation that
    the syntax asks for. A fill of a `single_line` span has no line end.
    """

    start: int
    end: int
    kind: HoleKind
    starts_with: str = ""
    single_line: bool = False

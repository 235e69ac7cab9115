"""An open document: the text an editor and we agree on, its lines and its tree. Knows positions, but no LSP types.

A `Document` is mutable and belongs to its session; a request works on a `Snapshot`, which never changes. The lines are
updated with every edit; the tree is edited at once and parsed again only when a snapshot is asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tree_sitter import Tree

from lsp_server.carve.parsing import edit_tree, parse
from lsp_server.positions import Encoding, LineIndex


@dataclass(frozen=True)
class Edit:
    """One change: the text between two positions is replaced. Without positions the whole text is.

    A position is a zero-based line and a column in units of the encoding that `Document.apply` is given.
    """

    start: tuple[int, int] | None
    end: tuple[int, int] | None
    text: str


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A document at one version. `tree` is the parse of exactly `text` and stays valid; None: no grammar."""

    uri: str
    language_id: str
    version: int
    text: str
    lines: LineIndex
    tree: Tree | None


class Document:
    """The text of one open document, changed only by `apply`."""

    def __init__(self, uri: str, language_id: str, version: int, text: str) -> None:
        self.uri = uri
        self.language_id = language_id
        self.version = version
        self._text = text
        self._lines = LineIndex(text)
        self._tree: Tree | None = None
        self._snapshot: Snapshot | None = None

    @property
    def text(self) -> str:
        """The text after the last `apply`."""
        return self._text

    def apply(self, edits: Sequence[Edit], version: int, encoding: Encoding) -> None:
        """Apply changes in order, each to the text that the one before it left, as the LSP asks for.

        Positions outside the text are clamped, a range given backwards is turned around.
        """
        if self._snapshot is not None:
            self._tree = self._snapshot.tree and self._snapshot.tree.copy()  # the snapshot's own is never edited
            self._snapshot = None
        for edit in edits:
            if edit.start is None or edit.end is None:
                self._replace_all(edit.text)
            else:
                first = self._lines.offset(*edit.start, encoding)
                last = self._lines.offset(*edit.end, encoding)
                self._replace(min(first, last), max(first, last), edit.text)
        self.version = version

    def snapshot(self) -> Snapshot:
        """The document as it stands. Parses what changed since the last snapshot; without a change it is that one."""
        if self._snapshot is None:
            tree = parse(self.language_id, self._text, self._tree)
            self._snapshot = Snapshot(self.uri, self.language_id, self.version, self._text, self._lines, tree)
        return self._snapshot

    def _replace_all(self, text: str) -> None:
        self._text, self._lines, self._tree = text, LineIndex(text), None

    def _replace(self, start: int, end: int, replacement: str) -> None:
        if self._tree is not None:
            edit_tree(self._tree, self._text, start, end, replacement)
        self._text = self._text[:start] + replacement + self._text[end:]
        self._lines = self._lines.edited(start, end, replacement, self._text)

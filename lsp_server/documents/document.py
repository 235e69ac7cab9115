"""An open document: the text an editor and we agree on, its lines and its tree. Knows positions, but no LSP types.

A `Document` is mutable and belongs to its session; a request works on a `Snapshot`, which never changes. The lines are
updated with every edit; the tree is edited at once and parsed again only when a snapshot is asked for.

An editor that counts in UTF-16 may send half a surrogate pair, or an edit that parts one or joins two halves. Halves
are kept, or the text would no longer be the editor's; what is handed out has U+FFFD in the place of each. That is as
wide in every encoding, and as only the text of holes is ever sent back, the editor's own text keeps what it has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Tree

from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.syntax.parsing import edit_tree, parse
from lsp_server.syntax.source import well_formed


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
    """A document at one version. `tree` is the parse of exactly `text` and stays valid; None: no grammar.

    `before` and `after` are what the model is to see around the text, such as a notebook's other cells: never a hole.
    """

    uri: str
    language_id: str
    version: int
    text: str
    lines: LineIndex
    tree: Tree | None
    before: str = ""
    after: str = ""


class Document:
    """The text of one open document, changed only by `apply`. `around` tells what stands before and after it now."""

    def __init__(
        self, uri: str, language_id: str, version: int, text: str, around: Callable[[], tuple[str, str]] | None = None
    ) -> None:
        self.uri = uri
        self.language_id = language_id
        self.version = version
        self._around = around
        self._tree: Tree | None = None
        self._snapshot: Snapshot | None = None
        self._replace_all(text)

    @property
    def text(self) -> str:
        """The text after the last `apply`, without lone surrogates."""
        return well_formed(self._raw) if self._has_halves else self._raw

    @property
    def lines(self) -> LineIndex:
        """The lines of the text after the last `apply`."""
        return self._lines

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
                first, last = (self._offset(*at, encoding) for at in sorted((edit.start, edit.end)))
                self._replace(first, last, edit.text)
                if self._has_halves and encoding is Encoding.UTF16:
                    self._join_halves(first + len(edit.text))
                    self._join_halves(first)
        self.version = version

    def snapshot(self) -> Snapshot:
        """The document as it stands. Parses what changed since the last snapshot; without a change it is that one."""
        if self._snapshot is None:
            text = self.text
            tree = parse(self.language_id, text, self._tree, self._edited)
            self._snapshot = Snapshot(self.uri, self.language_id, self.version, text, self._lines, tree)
        around = self._around() if self._around else ("", "")
        if around != (self._snapshot.before, self._snapshot.after):
            self._snapshot = replace(self._snapshot, before=around[0], after=around[1])
        return self._snapshot

    def _replace_all(self, text: str) -> None:
        self._raw, self._lines = text, LineIndex(text)
        self._has_halves = well_formed(text) != text
        self._tree = None
        self._edited: int | None = None  # where the last edit ends

    def _replace(self, start: int, end: int, replacement: str) -> None:
        if self._tree is not None:
            edit_tree(self._tree, self.text, start, end, well_formed(replacement))
        self._edited = start + len(replacement)
        self._raw = self._raw[:start] + replacement + self._raw[end:]
        self._lines = self._lines.edited(start, end, replacement, self._raw)
        self._has_halves = self._has_halves or well_formed(replacement) != replacement

    def _offset(self, line: int, character: int, encoding: Encoding) -> int:
        """The `str` index of a position. A surrogate pair that it parts becomes two halves."""
        offset = self._lines.offset(line, character, encoding)
        at = self._raw[offset : offset + 1]
        if encoding is Encoding.UTF16 and at > "\uffff" and self._lines.position(offset, encoding)[1] < character:
            high, low = divmod(ord(at) - 0x10000, 0x400)
            self._replace(offset, offset + 1, chr(0xD800 + high) + chr(0xDC00 + low))
            return offset + 1
        return offset

    def _join_halves(self, offset: int) -> None:
        """Make one character of the two halves that have come together at `offset`, if they have."""
        high, low = self._raw[max(offset - 1, 0) : offset], self._raw[offset : offset + 1]
        if "\ud800" <= high <= "\udbff" and "\udc00" <= low <= "\udfff":
            whole = chr(0x10000 + (ord(high) - 0xD800) * 0x400 + ord(low) - 0xDC00)
            self._replace(offset - 1, offset + 1, whole)

"""An open document: the editor's text, its lines and its tree. Knows positions but no LSP types.

A `Document` is mutable and belongs to its session; a request works on a `Snapshot`, which never changes.

Half a surrogate pair is read as U+FFFD, which takes as many units in each encoding.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tree_sitter import Tree

from lsp_server.documents.change import TextChange, minimal_change
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.documents.uris import uri_path
from lsp_server.syntax.languages import resolve_language_id
from lsp_server.syntax.parsing import MAX_PARSE_S, CpuLimit, Source, edit_tree, parse, replace_lone_surrogates

QUICK_PARSE_S = 0.02
"""In processor time: typing may wait this long for a parse."""
MAX_EDITS = 100
"""More are merged into one change: nobody types that many, and each feature looks at every change."""
_REST_RATIO = 10
"""After an abandoned parse, wait this many times its duration: the text is probably no better yet."""


@dataclass(frozen=True)
class ContentChange:
    """An edit: `text` replaces the range between two positions (line, column), or without them the whole text."""

    start: tuple[int, int] | None
    end: tuple[int, int] | None
    text: str


@dataclass(frozen=True, eq=False)
class Snapshot(Source):
    """A document at one version. `text_before` and `text_after` are around it."""

    version: int
    lines: LineIndex
    text_before: str = ""
    text_after: str = ""


@dataclass(eq=False)
class ParseJob:
    """A slow parse of one version, to run in a thread. `old_tree` must not be shared."""

    language_id: str
    text: str
    old_tree: Tree | None
    tree: Tree | None = None
    limit: CpuLimit = field(default_factory=lambda: CpuLimit(MAX_PARSE_S))

    def run(self) -> None:
        if not self.limit.reached:
            self.tree = parse(self.language_id, self.text, self.old_tree, self.limit)


class Document:
    """The `text` and `lines` of one open document; only `apply` changes them. `surroundings`: the text around it."""

    def __init__(
        self,
        uri: str,
        language_id: str,
        version: int,
        text: str,
        surroundings: Callable[[], tuple[str, str]] | None = None,
    ) -> None:
        self.uri = uri
        self.editor_language_id = language_id
        """As the editor sent it."""
        self.language_id = resolve_language_id(language_id, uri_path(uri))
        self.version = version
        self._around = surroundings
        self.text = ""
        self.lines = LineIndex("")
        self._tree: Tree | None = None
        self._snapshot: Snapshot | None = None
        self._job: ParseJob | None = None
        self._was_quick = True
        self._rests_until_s = float("-inf")
        self._replace_all(text)

    def apply(self, edits: Sequence[ContentChange], version: int, encoding: Encoding) -> list[TextChange]:
        """Applies edits in order, with positions clamped to the text, and returns the changes that lead from the old
        `text` to the new one: one for each edit, or a single one for more than `MAX_EDITS`.
        """
        if self._snapshot is not None:
            self._tree = self._snapshot.tree and self._snapshot.tree.copy()  # the snapshot keeps its own
            self._snapshot = None
        if "\r" in self.text and "\n" not in self.text:  # grammars read such a text differently, see `parse`
            self._tree = None
        self.stop_parsing()
        text_before = self.text
        changes: list[TextChange] = []
        for edit in edits:
            old = self.text
            if edit.start is None or edit.end is None:
                self._replace_all(edit.text)
                changes.append(minimal_change(old, self.text))
                continue
            start, end = (self.lines.offset(*position, encoding) for position in sorted((edit.start, edit.end)))
            change = TextChange(start, old[start:end], replace_lone_surrogates(edit.text))
            if self._tree is not None:
                edit_tree(self._tree, old, start, end, change.added)
            self.text = change.apply_to(old)
            self.lines = self.lines.edited(start, end, change.added, self.text)
            changes.append(change)
        if len(edits) > MAX_EDITS:
            changes = [minimal_change(text_before, self.text)]
        self.version = version
        return changes

    def snapshot(self, *, quick: bool = False) -> Snapshot:
        """The document now. `quick`: without a tree if parsing it would take longer than `QUICK_PARSE_S`."""
        if self._snapshot is None and quick and self.parse_job() is not None:
            return self._surrounded(self._with(self.text, None))
        if self._snapshot is None:
            text = self.text
            self._snapshot = self._with(text, parse(self.language_id, text, self._tree))
        self._snapshot = self._surrounded(self._snapshot)
        return self._snapshot

    def parse_job(self) -> ParseJob | None:
        """A job to run and then pass to `adopt_parse` before taking a snapshot; None if none is needed."""
        if self._snapshot is not None or self._job is not None:
            return self._job
        text = self.text
        limit = CpuLimit(QUICK_PARSE_S)
        if time.monotonic() < self._rests_until_s:
            self._snapshot = self._with(text, None)
            return None
        if self._was_quick:
            tree = parse(self.language_id, text, self._tree, limit)
            if not limit.reached:
                self._snapshot = self._with(text, tree)
                return None
            self._was_quick = False
        old_tree = self._tree.copy() if self._tree is not None else None
        self._job = ParseJob(self.language_id, text, old_tree)
        return self._job

    def adopt_parse(self, job: ParseJob) -> bool:
        """Adopts the tree of a finished job; False if the text has changed meanwhile."""
        if job is self._job:
            self._snapshot = self._with(job.text, job.tree)
            self._job = None
            self._was_quick = job.limit.spent_s < QUICK_PARSE_S / 2
            if job.limit.reached:
                self._rests_until_s = time.monotonic() + _REST_RATIO * MAX_PARSE_S
        return self._snapshot is not None and self._snapshot.text is job.text

    def stop_parsing(self) -> None:
        if self._job is not None:
            self._job.limit.stop()
            self._job = None

    def _with(self, text: str, tree: Tree | None) -> Snapshot:
        return Snapshot(text, self.language_id, tree, self.uri, version=self.version, lines=self.lines)

    def _surrounded(self, snapshot: Snapshot) -> Snapshot:
        surroundings = self._around() if self._around else ("", "")
        if surroundings == (snapshot.text_before, snapshot.text_after):
            return snapshot
        return replace(snapshot, text_before=surroundings[0], text_after=surroundings[1])

    def _replace_all(self, text: str) -> None:
        self.text = replace_lone_surrogates(text)
        self.lines = LineIndex(self.text)
        self._tree = None

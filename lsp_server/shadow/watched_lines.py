"""The lines of the holes that the other model is asked about just now: whether the user works on them."""

from collections.abc import Sequence

from lsp_server.documents.change import Change
from lsp_server.syntax.lines import line_start
from lsp_server.usage.text_range import TextRange, smallest


class WatchedLines:
    """Those of `places` in a `text` that goes on being edited; None is a place that nobody knows."""

    def __init__(self, text: str, places: Sequence[TextRange | None]) -> None:
        self._lines = [_lines_of(text, place) for place in places if place is not None]

    def touched(self, changes: Sequence[Change]) -> bool:
        """Whether one of the changes, which come one after another, is on one of the lines."""
        for change in map(smallest, changes):
            if any(change.start <= line.end and not _is_before(change, line) for line in self._lines):
                return True
            shifts = (change.shift if _is_before(change, line) else 0 for line in self._lines)
            self._lines = [
                TextRange(line.start + shift, line.end + shift) for line, shift in zip(self._lines, shifts, strict=True)
            ]
        return False


def _is_before(change: Change, line: TextRange) -> bool:
    return change.end < line.start or (change.end == line.start and change.added.endswith(("\n", "\r")))


def _lines_of(text: str, place: TextRange) -> TextRange:
    ends = [at for end in "\r\n" if (at := text.find(end, place.end)) >= 0]
    return TextRange(line_start(text, place.start), min(ends, default=len(text)))

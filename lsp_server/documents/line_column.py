"""Places in a file as a command line names them: `LINE:COL`, both counted from 1, in characters."""

from pathlib import Path

from lsp_server.documents.document import Snapshot
from lsp_server.documents.files import BadInput
from lsp_server.documents.positions import Encoding

_DIGITS = 10


def offset_of(snapshot: Snapshot, place: str, file: Path) -> int:
    """The `str` index of a place. Raises BadInput where it is none, or outside the file."""
    line, column = _line_and_column(place)
    lines = snapshot.lines
    if line > lines.line_count or column - 1 > lines.line_end(line - 1) - lines.line_start(line - 1):
        raise BadInput(f"{file}: --at {place} is outside the file")
    return lines.offset(line - 1, column - 1, Encoding.UTF32)


def _line_and_column(place: str) -> tuple[int, int]:
    line, _, column = place.partition(":")
    if not all(part.isdecimal() and len(part) < _DIGITS and int(part) for part in (line, column)):
        raise BadInput(f"--at {place[:40]}: give a line and a column counted from 1, as in --at 12:5")
    return int(line), int(column)

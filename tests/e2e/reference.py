"""A minimal second implementation of positions and edits, to check the server's."""

import re

from lsprotocol.types import Position, Range, TextEdit, WorkspaceEdit

UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def offset(text: str, position: Position, encoding: str) -> int:
    """The `str` index of a position that lies in `text`."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    line = lines[position.line].rstrip("\r\n")
    units = line.encode(CODECS[encoding])[: position.character * UNIT_BYTES[encoding]]
    return sum(map(len, lines[: position.line])) + len(units.decode(CODECS[encoding]))


def position(text: str, at: int, encoding: str) -> Position:
    before = re.split(r"\r\n|\r|\n", text[:at])
    return Position(len(before) - 1, len(before[-1].encode(CODECS[encoding])) // UNIT_BYTES[encoding])


def span(text: str, range_: Range, encoding: str) -> tuple[int, int]:
    return offset(text, range_.start, encoding), offset(text, range_.end, encoding)


def text_edits(edit: WorkspaceEdit, uri: str) -> list[TextEdit]:
    """The edits for one document; there must be no others."""
    if edit.document_changes is None:
        assert set(edit.changes) == {uri}
        return list(edit.changes[uri])
    (change,) = edit.document_changes
    assert change.text_document.uri == uri  # type: ignore[union-attr]
    return list(change.edits)  # type: ignore[union-attr,arg-type]


def pieces_around(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """What stands outside the spans, which are in order and do not overlap."""
    cuts = [0, *(at for span in spans for at in span), len(text)]
    assert cuts == sorted(cuts)
    return [text[cuts[i] : cuts[i + 1]] for i in range(0, len(cuts), 2)]


def applied(text: str, edits: list[TextEdit], encoding: str) -> str:
    """`text` after edits that do not overlap."""
    for edit in sorted(edits, key=lambda edit: offset(text, edit.range.start, encoding), reverse=True):
        start, end = span(text, edit.range, encoding)
        text = text[:start] + edit.new_text + text[end:]
    return text

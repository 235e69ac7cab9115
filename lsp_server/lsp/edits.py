"""Converts between offsets and the protocol's positions and ranges, and turns fills into edits, one per hole."""

from collections.abc import Sequence

from lsprotocol import types

from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.lsp.capabilities import ClientFeatures


def range_of(lines: LineIndex, start: int, end: int, encoding: Encoding) -> types.Range:
    """The range `[start, end)` of a text with these lines."""
    first, last = (types.Position(*lines.position(offset, encoding)) for offset in (start, end))
    return types.Range(start=first, end=last)


def offset_of(lines: LineIndex, position: types.Position, encoding: Encoding) -> int:
    """The offset of a position in a text with these lines; one outside the text is clamped."""
    return lines.offset(position.line, position.character, encoding)


def offsets_of(lines: LineIndex, range_: types.Range, encoding: Encoding) -> tuple[int, int]:
    """The offsets of a range, smaller one first."""
    first, last = sorted(offset_of(lines, position, encoding) for position in (range_.start, range_.end))
    return first, last


def workspace_edit(
    snapshot: Snapshot, spans: Sequence[Span], texts: Sequence[str], features: ClientFeatures
) -> types.WorkspaceEdit:
    """Puts `texts` into the holes `spans`; with the document's version if the client checks it."""
    edits = [
        types.TextEdit(range=range_of(snapshot.lines, span.start, span.end, features.encoding), new_text=text)
        for span, text in zip(spans, texts, strict=True)
        if text != snapshot.text[span.start : span.end]
    ]
    if not features.versioned_edits:
        return types.WorkspaceEdit(changes={snapshot.uri: edits})
    document = types.OptionalVersionedTextDocumentIdentifier(uri=snapshot.uri, version=snapshot.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(text_document=document, edits=edits)])

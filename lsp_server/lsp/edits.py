"""Holes and their fills as ranges and edits of the protocol. Each edit replaces exactly one hole."""

from collections.abc import Sequence

from lsprotocol import types

from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.lsp.capabilities import ClientFeatures


def range_of(snapshot: Snapshot, span: Span, encoding: Encoding) -> types.Range:
    """The range of a hole in its document."""
    start, end = (types.Position(*snapshot.lines.position(at, encoding)) for at in (span.start, span.end))
    return types.Range(start=start, end=end)


def workspace_edit(
    snapshot: Snapshot, spans: Sequence[Span], texts: Sequence[str], features: ClientFeatures
) -> types.WorkspaceEdit:
    """Put `texts` into the holes `spans`; with the document's version where the client looks at it."""
    edits = [
        types.TextEdit(range=range_of(snapshot, span, features.encoding), new_text=text)
        for span, text in zip(spans, texts, strict=True)
        if text != snapshot.text[span.start : span.end]
    ]
    if not features.versioned_edits:
        return types.WorkspaceEdit(changes={snapshot.uri: edits})
    document = types.OptionalVersionedTextDocumentIdentifier(uri=snapshot.uri, version=snapshot.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(text_document=document, edits=edits)])

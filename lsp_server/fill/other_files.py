"""Collects the parts of other files that the model sees, if it can use them and the settings allow it."""

from collections.abc import Iterable, Sequence

from inference.messages import Snippet, Status
from lsp_server.context.gather import Buffer, ContextQuery
from lsp_server.context.provider import ASKED_MS, ContextSource
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.uris import local_path
from lsp_server.settings.privacy import ReadableFolder
from lsp_server.settings.schema import ContextSettings


async def other_files(
    source: ContextSource,
    snapshot: Snapshot,
    offset: int,
    settings: ContextSettings,
    status: Status | None,
    *,
    folders: Sequence[ReadableFolder],
    opened: Iterable[Document] = (),
    max_ms: int = ASKED_MS,
) -> tuple[Snippet, ...]:
    """The parts of other files that help at `offset`, from `folders` and `opened`; none if the model uses none."""
    max_tokens = min(settings.max_tokens, status.context_tokens if status else 0)
    document = _buffer_of(snapshot)
    if not settings.enabled or not max_tokens or document is None:
        return ()
    buffers = tuple(buffer for other in opened if (buffer := _buffer_of(other)) is not None)
    line = snapshot.lines.line_of(offset)
    query = ContextQuery(document, snapshot.tree, line, buffers, tuple(folders))
    return await source.gather(query, max_tokens, max_ms)


def _buffer_of(document: Document | Snapshot) -> Buffer | None:
    """None if the document is not a file on this machine."""
    path = local_path(document.uri)
    return Buffer(path, document.language_id, document.version, document.text) if path else None

"""`textDocument/codeAction`: what could be filled here. No model is asked: the edit is made by `codeAction/resolve`."""

from collections.abc import Sequence

from lsprotocol import types
from lsprotocol.types import CodeAction

from lsp_server import carve
from lsp_server.capabilities import FILL_KIND
from lsp_server.document import Snapshot
from lsp_server.handlers.code_action_resolve import FillOrder
from lsp_server.session import Session


def code_action(session: Session, params: types.CodeActionParams) -> list[CodeAction]:
    snapshot = session.snapshot(params.text_document.uri)
    if snapshot is None or not session.features.lazy_code_actions or not _wanted(params.context.only):
        return []
    spans = carve.markers(snapshot, session.settings.marker)
    encoding = session.features.encoding
    start, end = (
        snapshot.lines.offset(position.line, position.character, encoding)
        for position in (params.range.start, params.range.end)
    )
    chosen = [span for span in spans if span.start <= max(start, end) and span.end >= min(start, end)]
    at_cursor, some = start == end, 0 < len(chosen) < len(spans)
    actions = []
    if some or (chosen and at_cursor):
        where = "this hole" if at_cursor else "the hole in the selection"
        actions.append(_action(snapshot, chosen, where, "holes in the selection"))
    if some or (spans and not (chosen and at_cursor)):
        actions.append(_action(snapshot, spans, "the hole in this file", "holes in this file"))
    return actions


def _action(snapshot: Snapshot, spans: Sequence[carve.Span], one: str, many: str) -> CodeAction:
    title = f"Fill {one}" if len(spans) == 1 else f"Fill the {len(spans)} {many}"
    order = FillOrder(snapshot.uri, snapshot.version, [(span.start, span.end) for span in spans])
    return CodeAction(title=title, kind=FILL_KIND, data=order.as_data())


def _wanted(only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Whether the client asked for our kind: kinds are prefixes, `refactor` asks for `refactor.rewrite.infill`."""
    if only is None:
        return True
    kinds = (kind.value if isinstance(kind, types.CodeActionKind) else kind for kind in only)
    return any(kind == "" or kind == FILL_KIND or FILL_KIND.startswith(f"{kind}.") for kind in kinds)

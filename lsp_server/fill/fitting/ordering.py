"""Order candidates as the worker does, except that those which newly break the parse come last."""

from collections.abc import Sequence

from lsp_server.carve import Span
from lsp_server.fill.fitting.breakage import errors_of, errors_with
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.source import Source


def order(source: Source, spans: Sequence[Span], candidates: Sequence[tuple[str, ...]]) -> list[int]:
    """The indices of `candidates`, in the order given but for those that leave more errors in the tree than there were.

    A text is often broken by its holes alone, so a fill is also compared with a mere name or statement in its place.
    Without a tree the order stays as it is. Raises ValueError where `splice` does, if there is a choice.
    """
    if source.tree is None or len(candidates) < 2:  # parsing costs milliseconds, and there is nothing to choose
        return list(range(len(candidates)))
    allowed = _allowed_errors(source, spans)
    breaks = [errors_with(source, spans, fills) > allowed for fills in candidates]
    return sorted(range(len(candidates)), key=breaks.__getitem__)


def breaks_parse(source: Source, spans: Sequence[Span], fills: Sequence[str]) -> bool:
    """Whether `fills` leave more errors in the tree than there were; False without a tree. Raises as `splice` does."""
    return errors_with(source, spans, fills) > _allowed_errors(source, spans)


def _allowed_errors(source: Source, spans: Sequence[Span]) -> int:
    table = table_of(source.language_id)
    least = errors_of(source.tree) if source.tree else 0
    for name in dict.fromkeys((table.name, table.name + table.statement_end)):
        least = min(least, errors_with(source, spans, [span.starts_with + name for span in spans]))
    return least

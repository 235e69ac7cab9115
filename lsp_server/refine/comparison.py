"""Decides whether the partner's text replaces the model's own draft.

The partner is larger, so its text wins, unless it breaks the parse or is empty where the draft is not. A small model
finds its own text likelier: judging by that lowered exact lines from 52 % to 32 %.
"""

import asyncio
from collections.abc import Sequence

from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.fill import fitting
from lsp_server.fill.pipeline import NOTHING_TO_CHANGE, Budget, FillResult


class NotRefined(Exception):
    """Nothing is better than the draft. str() says why."""


def usable(result: FillResult, budget: Budget, drafts: tuple[str, ...], marker: str) -> tuple[tuple[str, ...], float]:
    """The first answer that differs from the draft and opens no hole. Raises NotRefined."""
    for candidate in result.candidates:
        pairs = zip(candidate.texts, drafts, strict=True)
        if candidate.texts != drafts and all(text.count(marker) <= draft.count(marker) for text, draft in pairs):
            return candidate.texts, candidate.confidence
    raise NotRefined(NOTHING_TO_CHANGE if result.candidates else result.why_empty(budget))


async def is_better(snapshot: Snapshot, spans: Sequence[Span], draft: Sequence[str], other: Sequence[str]) -> bool:
    """Whether `other` should replace `draft`; each has one text per hole."""
    if tuple(draft) == tuple(other) or _empty(other) > _empty(draft):
        return False
    draft_breaks, other_breaks = await asyncio.to_thread(_broken, snapshot, spans, draft, other)
    return draft_breaks or not other_breaks


def _empty(texts: Sequence[str]) -> int:
    return sum(not text.strip() for text in texts)


def _broken(snapshot: Snapshot, spans: Sequence[Span], draft: Sequence[str], other: Sequence[str]) -> tuple[bool, bool]:
    broken = (fitting.breaks_parse(snapshot, spans, tuple(texts)) for texts in (draft, other))
    return next(broken), next(broken)

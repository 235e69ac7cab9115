"""Computes figures from records. Pure: reads no file and no clock."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lsp_server.usage.events import NEXT_EDIT
from lsp_server.usage.reading import AnswerRow, Recorded, SuggestionRow

TYPED_PER_MINUTE = 200
"""Characters, to estimate time: 40 words of five letters, a typical typing speed."""
ESTIMATE = (
    f"kept characters at {TYPED_PER_MINUTE} a minute: an estimate of typing alone, not of the time to think or to read"
)
FEW = 100
"""With fewer suggestions shown, shares are little more than chance."""
_GROUPS: dict[str, Callable[[SuggestionRow], str]] = {
    "by_language": lambda suggestion: suggestion.language,
    "by_kind": lambda suggestion: suggestion.kind,
    "by_trigger": lambda suggestion: suggestion.trigger,
    "by_day": lambda suggestion: datetime.fromtimestamp(suggestion.at_s).astimezone().date().isoformat(),
}


def report(recorded: Recorded) -> dict[str, Any]:
    """All figures, as plain data: `total`, and the same for each language, kind of hole, trigger and local day."""
    offered = [each.outcome for each in recorded.suggestions if each.kind == NEXT_EDIT]
    recorded = replace(recorded, suggestions=[each for each in recorded.suggestions if each.kind != NEXT_EDIT])
    return {
        "next_edits": {
            "offered": len(offered),
            "accepted": offered.count("whole"),
            "dismissed": offered.count("rejected"),
        },
        "total": _figures(recorded.suggestions, recorded.answers),
        **{name: _grouped(recorded, of) for name, of in _GROUPS.items()},
        "lost_events": recorded.lost,
        "estimate": ESTIMATE,
    }


def _grouped(recorded: Recorded, of: Callable[[SuggestionRow], str]) -> dict[str, Any]:
    group_of = {suggestion.key: of(suggestion) for suggestion in recorded.suggestions}
    suggestions: dict[str, list[SuggestionRow]] = {}
    answers: dict[str, list[AnswerRow]] = {}
    for suggestion in recorded.suggestions:
        suggestions.setdefault(group_of[suggestion.key], []).append(suggestion)
    for answer in recorded.answers:
        answers.setdefault(group_of[answer.suggestion], []).append(answer)
    return {name: _figures(suggestions[name], answers.get(name, ())) for name in sorted(suggestions)}


def _figures(suggestions: Sequence[SuggestionRow], answers: Sequence[AnswerRow]) -> dict[str, Any]:
    outcomes = [suggestion.outcome for suggestion in suggestions]
    taken = [suggestion for suggestion in suggestions if suggestion.outcome in ("whole", "part")]
    kept = round(sum(each.taken_characters * similarity for each in taken if (similarity := _last(each)) is not None))
    return {
        "shown": len(suggestions),
        "whole": outcomes.count("whole"),
        "part": outcomes.count("part"),
        "rejected": outcomes.count("rejected"),
        "neither": outcomes.count(None),
        "taken_characters": sum(each.taken_characters for each in taken),
        "at_save": _kept(each.similarity_at_save for each in taken),
        "later": _kept(each.similarity_later for each in taken),
        "kept_characters": kept,
        "unseen_characters": sum(each.taken_characters for each in taken if _last(each) is None),
        "saved_s": round(kept * 60 / TYPED_PER_MINUTE, 1),
        "latency_ms": {
            "computed": _latency([answer for answer in answers if not answer.remembered]),
            "remembered": _latency([answer for answer in answers if answer.remembered]),
        },
    }


def _last(suggestion: SuggestionRow) -> float | None:
    """The last look at an accepted text; None if there was none."""
    return suggestion.similarity_at_save if suggestion.similarity_later is None else suggestion.similarity_later


def _kept(similarities: Iterable[float | None]) -> dict[str, Any]:
    """The average similarity of the final text, and how often it was identical."""
    seen = [similarity for similarity in similarities if similarity is not None]
    mean = round(statistics.fmean(seen), 4) if seen else None
    return {"seen": len(seen), "similarity": mean, "unchanged": seen.count(1.0)}


def _latency(answers: Sequence[AnswerRow]) -> dict[str, Any]:
    drafts = [answer.first_draft_ms for answer in answers if answer.first_draft_ms is not None]
    return {"first_draft": _percentiles(drafts), "whole": _percentiles([answer.whole_ms for answer in answers])}


def _percentiles(times: Sequence[float]) -> dict[str, Any]:
    if not times:
        return {"answers": 0, "p50": None, "p95": None, "p99": None}
    cuts = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else [times[0]] * 99
    return {"answers": len(times), **{f"p{at}": round(cuts[at - 1], 2) for at in (50, 95, 99)}}

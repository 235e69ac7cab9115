"""From requests that both models were asked to figures. Pure: reads no file and no clock."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lsp_server.shadow.intervals import mean_with_interval
from lsp_server.shadow.reading import Compared, HoleRow
from lsp_server.shadow.verdict import verdict_on

OUTCOMES = ("answered", "late", "nothing", "failed", "stopped")
QUALITIES = {
    "in_time": "both answered in time",
    "with_late": "and late answers",
    "missing_as_0": "a missing or late one as 0",
    "nothing_taken": "you took nothing",
}
"""The ways of counting, and what each is called."""
NOTES = (
    "Quality is how similar a text is to what stood there 5 minutes later, or else at the next save; 1: the same.",
    "What you took counts for {main}, for what stands there began as its text. Where you took nothing that counts "
    "against {main}, for you had turned it down. Look at both.",
    "Only requests in time are compared; with late answers, and with a missing one counted as 0, the figures stand "
    "beside. Stopped ones count for nobody.",
    "{main} was timed while you worked, {other} once all was quiet, which flatters {other}.",
    "Only what {main} showed is in the sample: not where it found nothing.",
    "What went to the partner to be refined is not in the sample, whatever came of it: with `refine` at `unsure` that "
    "is what you asked for and {main} was not sure of.",
    "Intervals are of 95 %, by a bootstrap over documents.",
)
_MET = ("answered", "late", "nothing")
"""The outcomes of a model that was there, and said what it is called."""
_Value = tuple[int, float]


def report(pairs: Sequence[Compared]) -> dict[str, Any]:
    """All figures, as plain data: for each two models, the last used first, in total, by language and kind of hole."""
    groups = dict[tuple[str, str], list[Compared]]()
    for pair, other in reversed(list(zip(pairs, _others(pairs), strict=True))):
        groups.setdefault((pair.row.main_model, other), []).append(pair)
    return {"comparisons": [_comparison(main, other, found[::-1]) for (main, other), found in groups.items()]}


def _others(pairs: Sequence[Compared]) -> list[str]:
    """What the other model of each counts as. One that has never answered was called by its address, or else.

    What it failed to do then belongs to the model that answered next beside the same main one, or else last before.
    """
    names = [pair.row.other_model for pair in pairs]
    met = {(pair.row.main_model, pair.row.other_model) for pair in pairs if pair.row.outcome in _MET}
    for order in (range(len(pairs) - 1, -1, -1), range(len(pairs))):
        near = dict[str, str]()
        for number in order:
            main = pairs[number].row.main_model
            if (main, names[number]) in met:
                near[main] = names[number]
            else:
                names[number] = near.get(main, names[number])
    return names


def _comparison(main: str, other: str, pairs: Sequence[Compared]) -> dict[str, Any]:
    total = _figures(pairs)
    return {
        "main": main,
        "other": other,
        "verdict": verdict_on(main, other, total),
        "total": total,
        "by_language": _grouped(pairs, lambda pair: pair.row.language),
        "by_kind": _grouped(pairs, lambda pair: pair.kind),
        "notes": [note.format(main=main, other=other) for note in NOTES],
    }


def _grouped(pairs: Sequence[Compared], of: Callable[[Compared], str]) -> dict[str, Any]:
    groups: dict[str, list[Compared]] = {}
    for pair in pairs:
        groups.setdefault(of(pair), []).append(pair)
    return {name: _figures(groups[name]) for name in sorted(groups)}


def _figures(pairs: Sequence[Compared]) -> dict[str, Any]:
    outcomes = [pair.row.outcome for pair in pairs]
    taken = [hole.taken for pair in pairs for hole in pair.holes]
    alike = [hole.similarity for pair in pairs for hole in pair.holes if hole.similarity is not None]
    return {
        "requests": len(pairs),
        **{outcome: outcomes.count(outcome) for outcome in OUTCOMES},
        "errors": _counted(pair.row.error for pair in pairs if pair.row.error),
        "documents": len({pair.row.document for pair in pairs}),
        "acceptance": {
            "holes": len(taken),
            **{name: taken.count(name) for name in ("whole", "part", "rejected")},
            "neither": taken.count(None),
        },
        "latency_ms": {
            "first": _latency(pairs, lambda pair: (pair.row.main_first_ms, pair.row.other_first_ms)),
            "whole": _latency(pairs, lambda pair: (pair.row.main_whole_ms, pair.row.other_whole_ms)),
        },
        "quality": {
            "in_time": _quality(pairs, _in_time),
            "with_late": _quality(pairs, lambda pair, hole: hole.other),
            "missing_as_0": _quality(pairs, _missing_as_0),
            "nothing_taken": _quality(pairs, _nothing_taken),
        },
        "alike": {"holes": len(alike), "similarity": round(statistics.fmean(alike), 4) if alike else None},
    }


def _counted(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def _in_time(pair: Compared, hole: HoleRow) -> float | None:
    return hole.other if pair.row.outcome == "answered" else None


def _missing_as_0(pair: Compared, hole: HoleRow) -> float | None:
    """What the user would have had: of an answer that is late, nothing."""
    return None if pair.row.outcome == "stopped" else _in_time(pair, hole) or 0.0


def _nothing_taken(pair: Compared, hole: HoleRow) -> float | None:
    return None if hole.taken in ("whole", "part") else _in_time(pair, hole)


def _quality(pairs: Sequence[Compared], other: Callable[[Compared, HoleRow], float | None]) -> dict[str, Any]:
    """How similar both are to what stands, where both are known, and the lead of the other with its interval."""
    found = [
        (pair.row.document, hole.main, of_other)
        for pair in pairs
        for hole in pair.holes
        if hole.main is not None and (of_other := other(pair, hole)) is not None
    ]
    return {
        "holes": len(found),
        "main": round(statistics.fmean(main for _, main, _ in found), 4) if found else None,
        "other": round(statistics.fmean(of_other for _, _, of_other in found), 4) if found else None,
        "delta": mean_with_interval((document, of_other - main) for document, main, of_other in found),
    }


def _latency(pairs: Sequence[Compared], of: Callable[[Compared], tuple[float | None, float | None]]) -> dict[str, Any]:
    """Of requests that both answered, however late, and how much longer the other one took, with its interval.

    A model that was cut short at its limit counts with that: it would have taken longer.
    """
    found = [
        (pair.row.document, main, other)
        for pair in pairs
        if pair.row.outcome in ("answered", "late")
        for main, other in [of(pair)]
        if main is not None and other is not None
    ]
    return {
        "requests": len(found),
        "main": _percentiles([main for _, main, _ in found]),
        "other": _percentiles([other for _, _, other in found]),
        "delta": mean_with_interval(((document, other - main) for document, main, other in found), 2),
    }


def _percentiles(times: Sequence[float]) -> dict[str, float | None]:
    if not times:
        return {"p50": None, "p95": None}
    cuts = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else [times[0]] * 99
    return {"p50": round(cuts[49], 2), "p95": round(cuts[94], 2)}

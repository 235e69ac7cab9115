"""Reports on two recorded models: how close each is to the final text, with an interval for the difference."""

import random
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from lsp_server.usage.store import open_store

LEAST_HOLES, LEAST_DOCUMENTS = 30, 5
"""With fewer, an interval says little."""
RESAMPLES, SEED = 2000, 20
"""The seed is fixed, so that the same records give the same report."""
NOTES = (
    "Quality is the similarity of a text to the one there 5 minutes later, or at the next save; 1: the same.",
    "What you took counts for {main}, because that text stands there. Where you took nothing, that counts "
    "against {main}, because you had turned it down. Look at both lines.",
    "{main} was timed while you worked, {other} in quiet moments, which flatters {other}.",
    "The sample has only what {main} showed, and nothing that went to the partner to be refined.",
    "Intervals are of 95 %, by a bootstrap over documents.",
)
_ROWS = """
SELECT pair.key, pair.document, pair.language, pair.outcome, main_model, other_model, main_whole_ms, other_whole_ms,
    suggestion.outcome, coalesce(main_at_later, main_at_save),
    CASE WHEN main_at_later IS NULL THEN other_at_save ELSE other_at_later END
FROM pair JOIN pair_hole AS hole ON pair.key = hole.pair LEFT JOIN suggestion ON suggestion.key = hole.suggestion
WHERE pair.at_s >= ? ORDER BY pair.at_s, pair.key, hole.number
"""


class HoleRow(NamedTuple):
    """One hole that both models filled; `main` and `other` are similarities to the last text seen there, if any."""

    request: int
    document: int
    language: str
    outcome: str
    main_model: str
    other_model: str
    main_ms: float | None
    other_ms: float | None
    taken: str | None
    main: float | None
    other: float | None


def read_rows(file: Path, since_s: float) -> tuple[list[HoleRow], str]:
    """The records since then (Unix time), oldest first, and any message. Raises UsageFileError, sqlite3.Error."""
    if not file.exists() and not file.is_symlink():
        return [], ""
    connection, moved = open_store(file)
    with closing(connection):
        return [HoleRow(*row) for row in connection.execute(_ROWS, (since_s,))], moved


def report(rows: Sequence[HoleRow]) -> list[dict[str, Any]]:
    """All figures as plain data: one comparison per pair of models, most recently used first."""
    models = dict.fromkeys((row.main_model, row.other_model) for row in reversed(rows))
    return [_comparison(*pair, [row for row in rows if (row.main_model, row.other_model) == pair]) for pair in models]


def _comparison(main: str, other: str, rows: Sequence[HoleRow]) -> dict[str, Any]:
    requests = list({row.request: row for row in rows}.values())
    seen = [row for row in rows if row.outcome == "answered" and row.main is not None and row.other is not None]
    groups = {"all": seen, "you took nothing": [row for row in seen if row.taken not in ("whole", "part")]}
    groups |= {name: [row for row in seen if row.language == name] for name in sorted({row.language for row in seen})}
    lines = [_line(name, group) for name, group in groups.items() if group]
    timed = [row for row in requests if row.outcome in ("answered", "late") and row.main_ms and row.other_ms]
    return {
        "main": main,
        "other": other,
        "verdict": verdict(main, other, {line["name"]: line for line in lines}, _lead_with_missing(rows)),
        "requests": len(requests),
        "outcomes": dict(Counter(row.outcome for row in requests)),
        "median_ms": [
            round(statistics.median(times), 1) if timed else None
            for times in ([row.main_ms or 0 for row in timed], [row.other_ms or 0 for row in timed])
        ],
        "lines": lines,
        "notes": [note.format(main=main, other=other) for note in NOTES],
    }


def _line(name: str, rows: Sequence[HoleRow]) -> dict[str, Any]:
    main, other = (statistics.fmean(getattr(row, side) for row in rows) for side in ("main", "other"))
    low, high = _interval((row.document, (row.other or 0) - (row.main or 0)) for row in rows)
    documents = len({row.document for row in rows})
    return {
        "name": name,
        "holes": len(rows),
        "documents": documents,
        "main": main,
        "other": other,
        "difference": other - main,
        "low": low,
        "high": high,
    }


def _lead_with_missing(rows: Sequence[HoleRow]) -> float:
    """The other model's lead, counting its late or missing answers as 0."""
    met = [row for row in rows if row.outcome != "stopped" and row.main is not None]
    leads = [((row.other or 0) if row.outcome == "answered" else 0) - (row.main or 0) for row in met]
    return statistics.fmean(leads) if leads else 0.0


def verdict(main: str, other: str, lines: dict[str, dict[str, Any]], lead_with_missing: float) -> str:
    """A sentence that says which model serves the user better. `lines` by their names."""
    total, untouched = lines.get("all"), lines.get("you took nothing")
    if total is None or total["holes"] < LEAST_HOLES or total["documents"] < LEAST_DOCUMENTS:
        return f"Too early: it takes at least {LEAST_HOLES} holes in {LEAST_DOCUMENTS} documents."
    if total["low"] > 0 and lead_with_missing <= 0:
        return f"Undecided: {other} writes better for you, but too many of its answers are late or missing."
    if total["low"] > 0:
        return f"{other} writes better for you, although what you took counts for {main}."
    if total["high"] < 0 and untouched is not None and untouched["difference"] < 0:
        return f"{main} writes better for you, also where you took nothing of it."
    if total["high"] < 0:
        return f"Undecided: {main} is ahead only where you accepted its text."
    return "Undecided."


def _interval(values: Iterable[tuple[int, float]]) -> tuple[float | None, float | None]:
    """The 95 % interval of the mean of `values`, resampling whole documents, given by number; None for a single one."""
    by_document: dict[int, list[float]] = {}
    for document, value in values:
        by_document.setdefault(document, []).append(value)
    if len(by_document) < 2:
        return None, None
    chance = random.Random(SEED)  # noqa: S311 - no secret
    sums = [(sum(found), len(found)) for found in by_document.values()]
    draws = (chance.choices(sums, k=len(sums)) for _ in range(RESAMPLES))
    means = [sum(total for total, _ in drawn) / sum(count for _, count in drawn) for drawn in draws]
    cuts = statistics.quantiles(means, n=40, method="inclusive")
    return cuts[0], cuts[-1]

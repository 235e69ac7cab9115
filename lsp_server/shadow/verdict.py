"""Which of two models serves the user better, in words, and how many requests it still takes to say so. Pure."""

import math
from typing import Any

LEAST_HOLES, LEAST_DOCUMENTS = 30, 5
"""With fewer, an interval says little."""
NARROW = 0.02
"""An interval of so much on either side is as narrow as anybody needs."""
FEW_DOCUMENTS = 20
_Figures = dict[str, Any]


def verdict_on(main: str, other: str, total: _Figures) -> dict[str, Any]:
    """`winner` is `main`, `other`, `neither` (they are alike) or None: undecided; with words for the user.

    `more_requests` is how many more in the sample it takes until the interval excludes 0 or is narrow enough, if what
    comes is like what was; None: not known yet.
    """
    quality, more = total["quality"]["in_time"], more_requests(total)
    if more is None:
        return _verdict(None, more, _too_few(quality))
    lead = _lead(main, other, quality["delta"])
    if more:
        return _verdict(None, more, f"Undecided: {lead}. About {more:,} more requests in the sample may decide it.")
    if quality["delta"]["low"] > 0:
        return _other_ahead(main, other, total, lead)
    if quality["delta"]["high"] < 0:
        return _main_ahead(main, other, total, lead)
    return _verdict("neither", more, f"Neither: {lead}. {_speed(main, other, total)}")


def more_requests(total: _Figures) -> int | None:
    """How many more are needed, since an interval shrinks with the root of their number; None: it cannot be said."""
    quality = total["quality"]["in_time"]
    delta = quality["delta"]
    if quality["holes"] < LEAST_HOLES or delta["documents"] < LEAST_DOCUMENTS:
        return None
    half: float = (delta["high"] - delta["low"]) / 2
    if delta["low"] > 0 or delta["high"] < 0 or half <= NARROW:
        return 0
    factor: float = (half / max(NARROW, abs(delta["mean"]))) ** 2
    requests: int = total["requests"]
    return max(1, math.ceil(round((factor - 1) * requests, 6)))


def _other_ahead(main: str, other: str, total: _Figures, lead: str) -> dict[str, Any]:
    missing = total["quality"]["missing_as_0"]["delta"]["mean"]
    if missing <= 0:
        absent = total["late"] + total["nothing"] + total["failed"]
        words = f"but {absent} answers of it were missing or late, and counted as 0 they undo that ({missing:+.3f})"
        return _verdict(None, 0, f"Undecided: {lead}, {words}. {_speed(main, other, total)}")
    words = f"{lead}, although what you took counts for {main}"
    return _verdict("other", 0, f"{other} writes better for you: {words}. {_speed(main, other, total)}")


def _main_ahead(main: str, other: str, total: _Figures, lead: str) -> dict[str, Any]:
    untouched = total["quality"]["nothing_taken"]["delta"]
    if untouched is None or untouched["mean"] >= 0:
        what = "there is nothing yet" if untouched is None else f"{other} is ahead ({untouched['mean']:+.3f})"
        words = f"but what you took counts for {main}, and of what you wrote yourself {what}"
        return _verdict(None, 0, f"Undecided: {lead}, {words}. {_speed(main, other, total)}")
    words = f"{lead}, and also where you took nothing of it ({untouched['mean']:+.3f})"
    return _verdict("main", 0, f"{main} writes better for you: {words}. {_speed(main, other, total)}")


def _lead(main: str, other: str, delta: _Figures) -> str:
    ahead = other if delta["mean"] > 0 else main
    many = delta["documents"] >= FEW_DOCUMENTS
    few = "" if many else f"; of only {delta['documents']} documents, so take the interval for wider than that"
    interval = f"{delta['low']:+.3f} to {delta['high']:+.3f} for {other}{few}"
    return f"what {ahead} writes is {abs(delta['mean']):.3f} closer to what stands there in the end ({interval})"


def _speed(main: str, other: str, total: _Figures) -> str:
    whole = total["latency_ms"]["whole"]
    ours, theirs = whole["main"]["p50"], whole["other"]["p50"]
    if not ours or not theirs:
        return "Times are not known."
    share = f"{theirs / ours:.1f} times as long as" if theirs >= ours else f"{theirs / ours:.0%} of the time of"
    return f"{other} takes {share} {main} ({theirs:,.0f} and {ours:,.0f} ms, medians)."


def _too_few(quality: _Figures) -> str:
    documents = quality["delta"]["documents"] if quality["delta"] else 0
    return (
        f"Too early: {quality['holes']} holes in {documents} documents can be compared so far; it takes at least "
        f"{LEAST_HOLES} in {LEAST_DOCUMENTS}."
    )


def _verdict(winner: str | None, more: int | None, words: str) -> dict[str, Any]:
    return {"winner": winner, "more_requests": more, "words": words}

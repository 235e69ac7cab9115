"""The report of `infill-ls bench load` on the requests of all typists, as numbers and as a picture."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from inference.bench.load_editor import Request

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 760, 320, 60, 40


def report(clients: Sequence[Sequence[Request]], told: Counter[str]) -> dict[str, Any]:
    """Summarises each client's requests and the messages shown. Counts each request once.

    Times are in milliseconds, of requests answered with text.
    """
    every = [request for requests in clients for request in requests]
    kinds = Counter(_kind(request) for request in every)
    medians = [statistics.median(times) for requests in clients if (times := _whole(requests))]
    return {
        "requests": len(every),
        **{kind: kinds[kind] for kind in ("answered", "empty", "cancelled", "errors", "unanswered")},
        "answered_twice": sum(request.replies > 1 for request in every),
        "first_ms": _percentiles(_first(every)),
        "whole_ms": _percentiles(_whole(every)),
        "fairness": {
            "jain_of_answered_shares": round(_jain([_share(requests) for requests in clients]), 3),
            "median_ms_of_clients": [round(value, 1) for value in sorted(medians)],
        },
        "error_messages": dict(Counter(request.error for request in every if request.error).most_common(5)),
        "told": dict(told.most_common(5)),
    }


def shown(found: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"{found['requests']} requests: {found['answered']} answered, {found['empty']} with nothing to show, "
        f"{found['cancelled']} cancelled, {found['errors']} errors",
        f"{found['unanswered']} unanswered, {found['answered_twice']} answered twice; {found['accepted']} accepted",
    ]
    for name, what in (("first_ms", "to the first draft"), ("whole_ms", "to the answer")):
        if times := found[name]:
            lines.append(f"{what}: p50 {times['p50']:.0f}, p95 {times['p95']:.0f}, p99 {times['p99']:.0f} ms")
    fairness = found["fairness"]
    if medians := fairness["median_ms_of_clients"]:
        lines.append(
            f"fairness: Jain's index {fairness['jain_of_answered_shares']:.3f} (1: alike) of the shares of requests "
            f"that were answered; medians of clients from {medians[0]:.0f} to {medians[-1]:.0f} ms"
        )
    lines += [f"the user was told: {message}" for message in found["told"]]
    return "\n".join([*lines, *(f"error: {message}" for message in found["error_messages"])])


def picture(clients: Sequence[Sequence[Request]], title: str) -> str:
    """An SVG: the share of answers over time in milliseconds, for the first draft and the whole."""
    every = [request for requests in clients for request in requests]
    lines = {"first draft": ("#8a8a8a", _first(every)), "answer": ("#1f6feb", _whole(every))}
    longest = max((times[-1] for _, times in lines.values() if times), default=1.0)
    drawn = [f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>']
    for share in (0, 0.5, 0.95, 1):
        y = _y(share)
        drawn.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        drawn.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for part in range(5):
        x = _LEFT + (_WIDTH - _LEFT - 10) * part / 4
        drawn.append(f'<text x="{x:.0f}" y="{_HEIGHT - 18}" text-anchor="middle">{longest * part / 4:.0f} ms</text>')
    for number, (name, (colour, times)) in enumerate(lines.items()):
        points = " ".join(
            f"{_LEFT + (_WIDTH - _LEFT - 10) * ms / longest:.1f},{_y((place + 1) / len(times)):.1f}"
            for place, ms in enumerate(times)
        )
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(f'<text x="{_WIDTH - 100}" y="{_HEIGHT - 90 + 18 * number}" fill="{colour}">{name}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"'
    return f'{head} font-size="13"><rect width="100%" height="100%" fill="#fff"/>{"".join(drawn)}</svg>\n'


def _y(share: float) -> float:
    return 30 + (_HEIGHT - 30 - _BOTTOM) * (1 - share)


def _kind(request: Request) -> str:
    if not request.replies:
        return "unanswered"
    if request.error:
        return "errors"
    return "cancelled" if request.cancelled else "answered" if request.has_text else "empty"


def _first(requests: Sequence[Request]) -> list[float]:
    return sorted((one.first - one.sent) * 1000 for one in requests if one.has_text and one.first is not None)


def _whole(requests: Sequence[Request]) -> list[float]:
    return sorted((one.answered - one.sent) * 1000 for one in requests if one.has_text and one.answered is not None)


def _percentiles(times: Sequence[float]) -> dict[str, float] | None:
    if len(times) < 2:
        return None
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return {name: round(cuts[at - 1], 1) for name, at in (("p50", 50), ("p95", 95), ("p99", 99))}


def _share(requests: Sequence[Request]) -> float:
    wanted = [request for request in requests if not request.cancelled]
    return sum(request.has_text for request in wanted) / len(wanted) if wanted else 0.0


def _jain(shares: Sequence[float]) -> float:
    """1 if all have the same, 1/n if one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0

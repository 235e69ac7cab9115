"""Plots as SVG: intervals around 0, and how many answers were there after how long. Pure."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from lsp_server.shadow.reading import Compared

_WIDTH, _LABELS, _ROW = 800, 260, 24
_PLOT = _WIDTH - _LABELS - 40
_HEIGHT, _BOTTOM = 240, 30
_POINTS = 200
"""A curve is drawn through at most so many points."""


def interval_plot(rows: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """For each label a mean with its interval, where there is one; 0 is a line."""
    if not rows:
        return "<p>Nothing can be compared yet.</p>"
    ends = [abs(delta[end]) for _, delta in rows for end in ("mean", "low", "high") if delta[end] is not None]
    most: float = max(*ends, 0.02) * 1.1
    height = _ROW * len(rows) + 2 * _ROW

    def at(value: float) -> float:
        return _LABELS + _PLOT * (value + most) / (2 * most)

    parts = [f'<path class="axis" d="M{at(0):.1f} 5V{height - _ROW}"/>']
    parts += [
        f'<text x="{at(value):.1f}" y="{height - 6}" text-anchor="middle">{value:+.3f}</text>'
        for value in (-most / 1.1, 0.0, most / 1.1)
    ]
    for number, (label, delta) in enumerate(rows):
        y = _ROW * (number + 0.7)
        side = "other" if delta["mean"] > 0 else "main"
        parts.append(f'<text x="0" y="{y + 4:.1f}">{escape(label)}</text>')
        if delta["low"] is not None:
            parts.append(f'<path class="{side} curve" d="M{at(delta["low"]):.1f} {y:.1f}H{at(delta["high"]):.1f}"/>')
        parts.append(f'<circle class="{side}" cx="{at(delta["mean"]):.1f}" cy="{y:.1f}" r="4"/>')
    return _svg(height, parts)


def time_plot(main: str, other: str, pairs: Sequence[Compared]) -> str:
    """How many of the answers that both gave were there after how long, on a logarithmic scale."""
    both = [pair.row for pair in pairs if pair.row.outcome in ("answered", "late")]
    times = {
        "main": sorted(row.main_whole_ms for row in both if row.main_whole_ms and row.other_whole_ms),
        "other": sorted(row.other_whole_ms for row in both if row.main_whole_ms and row.other_whole_ms),
    }
    if not times["main"]:
        return "<p>No answers to compare yet.</p>"
    every = [math.log10(max(time_ms, 0.1)) for side in times.values() for time_ms in side]
    low = math.floor(min(every) * 2) / 2
    high = max(math.ceil(max(every) * 2) / 2, low + 0.5)

    def x(time_ms: float) -> float:
        return 50 + (_WIDTH - 90) * (math.log10(max(time_ms, 0.1)) - low) / (high - low)

    def y(share: float) -> float:
        return 10 + (_HEIGHT - _BOTTOM - 10) * (1 - share)

    parts = [f'<path class="axis" d="M50 10V{_HEIGHT - _BOTTOM}H{_WIDTH - 40}"/>']
    parts += [f'<text x="42" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>' for share in (0.0, 0.5, 1.0)]
    for number in range(round((high - low) * 2) + 1):
        time_ms = 10 ** (low + number / 2)
        parts.append(f'<text x="{x(time_ms):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{time_ms:,.0f} ms</text>')
    for side, name, place in (("main", main, 30), ("other", other, 50)):
        steps = _thinned(times[side])
        line = "L".join(f"{x(time_ms):.1f} {y(share):.1f}" for time_ms, share in steps)
        parts.append(f'<path class="{side} curve" d="M{line}"/>')
        parts.append(f'<circle class="{side}" cx="64" cy="{place - 4}" r="4"/>')
        parts.append(f'<text x="74" y="{place}">{escape(name)}</text>')
    return _svg(_HEIGHT, parts)


def _thinned(times: Sequence[float]) -> list[tuple[float, float]]:
    """Each time with the share of answers that were there by then; the first and the last are kept."""
    count = len(times)
    picked = sorted({round(number * (count - 1) / (_POINTS - 1)) for number in range(_POINTS)})
    return [(times[at], (at + 1) / count) for at in picked]


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'

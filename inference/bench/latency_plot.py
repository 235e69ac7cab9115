"""Draws the result of `infill-ls bench latency` as bars, in one self-contained SVG."""

from html import escape
from typing import Any

_WIDTH, _LABEL, _BAR, _GAP = 760, 300, 20, 8
_COLOURS = {"ours": "#3b82c4", "theirs": "#b0b7bf"}


def svg(result: dict[str, Any]) -> str:
    """The picture as text: milliseconds, ours in colour, the other ways grey."""
    bars = _bars(result)
    longest = max(ms for _, ms, _ in bars)
    height = 40 + len(bars) * (_BAR + _GAP)
    title = f"{result['model']} on {result['device']}, {result['dtype']}: milliseconds"
    lines = [f'<text x="8" y="22" font-weight="bold">{escape(title)}</text>']
    for number, (label, ms, whose) in enumerate(bars):
        y = 36 + number * (_BAR + _GAP)
        width = max(1.0, (_WIDTH - _LABEL - 90) * ms / longest)
        lines += [
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{_COLOURS[whose]}"/>',
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 15}">{ms:.4g}</text>',
        ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
    return f'{head} font-size="13"><rect width="100%" height="100%" fill="#fff"/>{"".join(lines)}</svg>\n'


def _bars(result: dict[str, Any]) -> list[tuple[str, float, str]]:
    """(label, milliseconds, whose) of each bar, top to bottom."""
    line, found = result["against_generate"], []
    found.append(("a line: transformers' generate", line["generate_ms"], "theirs"))
    found.append(("a line: ours, same canvas, cold", line["same_canvas_cold_ms"], "ours"))
    found.append(("a line: ours, tight canvas, warm", line["tight_canvas_warm_ms"], "ours"))
    for row in result["against_left_to_right"]:
        found.append((f"{row['hole_tokens']} tokens: left to right", row["left_to_right_ms"], "theirs"))
        found.append((f"{row['hole_tokens']} tokens: canvas", row["canvas_ms"], "ours"))
    for row in result["prefixes"]:
        found.append((f"keystroke at {row['prefix_tokens']} tokens: cold", row["cold_ms"], "theirs"))
        found.append((f"keystroke at {row['prefix_tokens']} tokens: warm", row["warm_ms"], "ours"))
    return found

"""The report as one page that stands alone: no script, no network, the plots as SVG in it. Pure."""

from collections.abc import Sequence
from html import escape
from typing import Any

from lsp_server.shadow.figures import OUTCOMES, QUALITIES
from lsp_server.shadow.plots import interval_plot, time_plot
from lsp_server.shadow.reading import Compared

_STYLE = """
:root { color-scheme: light dark; --main: #0b6bcb; --other: #c2541b; --line: #8888; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.verdict { font-size: 1.1rem; border-left: 4px solid var(--main); padding: .3rem 0 .3rem 1rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: right; }
td:first-child, th:first-child { text-align: left; } th { border-bottom: 1px solid var(--line); }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.main { stroke: var(--main); fill: var(--main); } .other { stroke: var(--other); fill: var(--other); }
.curve { fill: none; stroke-width: 2; } .axis { stroke: var(--line); stroke-width: 1; fill: none; }
li, .small { font-size: .9rem; opacity: .85; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page_of(found: dict[str, Any], pairs: Sequence[Compared]) -> str:
    """The page. `found` is the report, `pairs` what it was made of."""
    parts = [_comparison(comparison, pairs) for comparison in found["comparisons"]]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>infill-ls: shadow report</title><style>{_STYLE}</style></head>\n<body>\n"
        f"<h1>Which model serves you better</h1>\n{''.join(parts)}"
        f'<p class="small">The last {found["days"]} days of {escape(found["file"])}</p>\n</body></html>'
    )


def _comparison(comparison: dict[str, Any], pairs: Sequence[Compared]) -> str:
    main, other, total = comparison["main"], comparison["other"], comparison["total"]
    mine = [pair for pair in pairs if (pair.row.main_model, pair.row.other_model) == (main, other)]
    counts = ", ".join(f"{total[outcome]} {outcome}" for outcome in OUTCOMES)
    accepted = total["acceptance"]
    notes = "".join(f"<li>{escape(note)}</li>" for note in comparison["notes"])
    return (
        f'<section><h2><span class="main">{escape(main)}</span> (which you were shown) and '
        f'<span class="other">{escape(other)}</span> (asked unseen)</h2>\n'
        f'<p class="verdict">{escape(comparison["verdict"]["words"])}</p>\n'
        f"<p>{total['requests']} requests in {total['documents']} documents; {escape(other)}: {counts}. "
        f"Of {escape(main)} you took {accepted['whole'] + accepted['part']} of {accepted['holes']}.</p>\n"
        f"<h2>How much closer {escape(other)} is to what stands there in the end</h2>\n"
        f"{interval_plot(_intervals(comparison))}\n{_table(comparison)}\n"
        f"<h2>How long an answer takes</h2>\n{time_plot(main, other, mine)}\n"
        f"<h2>How to read this</h2><ul>{notes}</ul></section>\n"
    )


def _intervals(comparison: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The lines of the plot: all, how else all can be counted, each language and each kind of hole."""
    quality = comparison["total"]["quality"]
    rows = [(title, quality[name]) for name, title in QUALITIES.items()]
    for group in ("by_language", "by_kind"):
        rows += [(name, one["quality"]["in_time"]) for name, one in comparison[group].items()]
    return [(f"{title} ({one['holes']})", one["delta"]) for title, one in rows if one["delta"] is not None]


def _table(comparison: dict[str, Any]) -> str:
    head = "".join(
        f"<th>{escape(name)}</th>" for name in ("", "holes", comparison["main"], comparison["other"], "difference")
    )
    rows = []
    for name, title in QUALITIES.items():
        one = comparison["total"]["quality"][name]
        if one["delta"] is not None:
            cells = (str(one["holes"]), f"{one['main']:.3f}", f"{one['other']:.3f}", f"{one['delta']['mean']:+.3f}")
            rows.append(f"<tr><td>{title}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"

"""`infill-ls shadow report` tells which of two models serves you better; `shadow forget` deletes the records."""

import argparse
import io
import json
import sqlite3
import sys
import time
from typing import Any

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from inference.models.printable import printable
from lsp_server.commands.stats import EXIT_FAILED, EXIT_NONE, days, forget, warn
from lsp_server.shadow.report import read_rows, report
from lsp_server.usage import store
from lsp_server.usage.place import usage_file
from lsp_server.usage.store import UsageFileError

_DAY_S = 86_400
_PLOT_COLUMNS = 24
_NOTHING = (
    "nothing is recorded in the last {days} days: set partner.url, and shadow.sample to the share of requests that "
    "both models are to be asked (such as 0.2)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="report|forget")
    shows = actions.add_parser("report", help="compare the two models on your own requests")
    shows.add_argument("--days", type=days, default=90, metavar="N", help="of the last N days (default: %(default)s)")
    form = shows.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--html", action="store_true", help="print the report as an HTML page")
    actions.add_parser("forget", help="delete the records of both models; the statistics stay")


def run(args: argparse.Namespace) -> int:
    """Prints the report, or forgets. Exit status 1 if the file is unusable, 3 if nothing is recorded."""
    try:
        if args.action == "forget":
            return forget("shadow", store.forget_pairs, "compared requests forgotten; the statistics in {file} stay.")
        return _print(args)
    except (UsageFileError, sqlite3.Error, OSError) as error:
        warn("shadow", str(error))
        return EXIT_FAILED


def _print(args: argparse.Namespace) -> int:
    file = usage_file()
    rows, moved = read_rows(file, time.time() - args.days * _DAY_S)
    warn("shadow", moved)
    found = {"file": str(file), "days": args.days, "comparisons": report(rows)}
    if args.json:
        print(json.dumps(found))
    elif not rows:
        warn("shadow", _NOTHING.format(days=args.days))
    else:
        _show(found, as_html=args.html)
    return 0 if rows else EXIT_NONE


def _show(found: dict[str, Any], *, as_html: bool) -> None:
    width = None if sys.stdout.isatty() and not as_html else 110
    page = io.StringIO() if as_html else None
    console = Console(highlight=False, markup=False, width=width, record=as_html, file=page)
    for comparison in found["comparisons"]:
        _show_comparison(console, comparison)
    console.print(f"\nRecorded in {printable(found['file'])}; infill-ls shadow forget deletes it.", soft_wrap=True)
    if as_html:
        print(console.export_html(inline_styles=True))


def _show_comparison(console: Console, comparison: dict[str, Any]) -> None:
    main, other = printable(comparison["main"]), printable(comparison["other"])
    console.print(f"\n{main} (shown to you) and {other} (asked silently)", style="bold", soft_wrap=True)
    console.print(printable(comparison["verdict"]), soft_wrap=True)
    outcomes = ", ".join(f"{count} {name}" for name, count in comparison["outcomes"].items())
    console.print(f"{comparison['requests']} requests; {other}: {outcomes}.")
    if None not in comparison["median_ms"]:
        times = zip((main, other), comparison["median_ms"], strict=True)
        console.print("Median time: " + ", ".join(f"{name} {time_ms:,.0f} ms" for name, time_ms in times))
    console.print(_table(main, other, comparison["lines"]))
    for note in comparison["notes"]:
        console.print(f"- {printable(note)}", style="dim")


def _table(main: str, other: str, lines: list[dict[str, Any]]) -> Table:
    """One line for all holes, for those without an accepted text, and for each language, with its interval as a bar."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, heading in enumerate(("", "holes", main, other, "difference", "95 %")):
        table.add_column(heading, justify="right" if at else "left")
    table.add_column(f"{main} ahead │ {other} ahead", width=_PLOT_COLUMNS)
    ends = [abs(line[end]) for line in lines for end in ("low", "high") if line[end] is not None]
    most = max(ends, default=0) or 1.0
    for line in lines:
        has_interval = line["low"] is not None
        interval = f"{line['low']:+.3f} to {line['high']:+.3f}" if has_interval else "-"
        bar = Bar(2 * most, line["low"] + most, line["high"] + most, width=_PLOT_COLUMNS) if has_interval else ""
        figures = f"{line['main']:.3f}", f"{line['other']:.3f}", f"{line['difference']:+.3f}"
        table.add_row(printable(line["name"]), str(line["holes"]), *figures, interval, bar)
    return table

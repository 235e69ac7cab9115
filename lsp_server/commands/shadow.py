"""`infill-ls shadow report`: which of two models serves you better; `infill-ls shadow forget` deletes the records."""

import argparse
import json
import sqlite3
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from lsp_server.commands.stats import EXIT_FAILED, EXIT_NONE, days, forget, warn
from lsp_server.shadow.figures import OUTCOMES, QUALITIES, report
from lsp_server.shadow.page import page_of
from lsp_server.shadow.reading import read_pairs
from lsp_server.usage import store
from lsp_server.usage.place import usage_file
from lsp_server.usage.store import UsageFileError

_DAY_S = 86_400
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
    form.add_argument("--html", action="store_true", help="print one page with plots, to be written to a file")
    actions.add_parser("forget", help="delete what compares the two models; the statistics stay")


def run(args: argparse.Namespace) -> int:
    """Print the report, or forget. Exit status 1 where the file cannot be used, 3 where nothing is recorded."""
    try:
        if args.action == "forget":
            return forget("shadow", store.forget_pairs, "compared requests forgotten; the statistics in {file} stay.")
        return _print(args)
    except (UsageFileError, sqlite3.Error, OSError) as error:
        print(f"infill-ls shadow: {error}", file=sys.stderr)
        return EXIT_FAILED


def _print(args: argparse.Namespace) -> int:
    file = usage_file()
    recorded = read_pairs(file, time.time() - args.days * _DAY_S)
    warn("shadow", recorded.moved)
    found = {"file": str(file), "days": args.days, **report(recorded.pairs)}
    if args.json:
        print(json.dumps(found))
    elif not recorded.pairs:
        warn("shadow", _NOTHING.format(days=args.days))
    elif args.html:
        print(page_of(found, recorded.pairs))
    else:
        _show(found)
    return 0 if recorded.pairs else EXIT_NONE


def _show(found: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 110)
    for comparison in found["comparisons"]:
        _show_comparison(console, comparison)
    console.print(f"\nRecorded in {found['file']}; infill-ls shadow forget deletes it.", soft_wrap=True)


def _show_comparison(console: Console, comparison: dict[str, Any]) -> None:
    main, other, total = comparison["main"], comparison["other"], comparison["total"]
    console.print(f"\n{main} (which you were shown) and {other} (asked unseen)", style="bold", soft_wrap=True)
    console.print(comparison["verdict"]["words"], soft_wrap=True)
    counts = ", ".join(f"{total[outcome]} {outcome}" for outcome in OUTCOMES)
    errors = "".join(f", {name}: {count}" for name, count in total["errors"].items())
    console.print(f"\n{total['requests']} requests in {total['documents']} documents; {other}: {counts}{errors}")
    accepted = total["acceptance"]
    taken = accepted["whole"] + accepted["part"]
    rest = f"rejected {accepted['rejected']}, neither {accepted['neither']}"
    console.print(f"Of {main} you took {taken} of {accepted['holes']} ({accepted['whole']} whole), {rest}.")
    _show_quality(console, comparison)
    _show_times(console, main, other, total["latency_ms"])
    for group, title in (("by_language", "language"), ("by_kind", "kind of hole")):
        _show_group(console, title, comparison[group])
    console.print()
    for note in comparison["notes"]:
        console.print(f"- {note}", style="dim")


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, heading in enumerate(headings):
        table.add_column(f"\n{heading}", justify="right" if at else "left")
    return table


def _show_quality(console: Console, comparison: dict[str, Any]) -> None:
    table = _table("quality", "holes", comparison["main"], comparison["other"], "difference", "95 %")
    for name, title in QUALITIES.items():
        one = comparison["total"]["quality"][name]
        if one["holes"]:
            table.add_row(title, *_quality_cells(one))
    console.print(table)


def _quality_cells(one: dict[str, Any]) -> tuple[str, ...]:
    if not one["holes"]:
        return ("0", "-", "-", "-", "-")
    return (str(one["holes"]), f"{one['main']:.3f}", f"{one['other']:.3f}", *_delta(one["delta"], ".3f"))


def _delta(delta: dict[str, Any] | None, form: str) -> tuple[str, str]:
    if delta is None:
        return "-", "-"
    interval = "-" if delta["low"] is None else f"{delta['low']:+{form}} to {delta['high']:+{form}}"
    return f"{delta['mean']:+{form}}", interval


def _show_times(console: Console, main: str, other: str, latency: dict[str, Any]) -> None:
    table = _table("ms", "requests", f"{main} p50", "p95", f"{other} p50", "p95", "difference", "95 %")
    for name, title in (("first", "to the first draft"), ("whole", "to the whole answer")):
        one = latency[name]
        if one["requests"]:
            cuts = [f"{one[side][cut]:,.0f}" for side in ("main", "other") for cut in ("p50", "p95")]
            table.add_row(title, str(one["requests"]), *cuts, *_delta(one["delta"], ",.0f"))
    console.print(table)


def _show_group(console: Console, title: str, groups: dict[str, Any]) -> None:
    table = _table(title, "requests", "compared", "main", "other", "difference", "95 %", "ms", "95 %")
    for name, one in groups.items():
        quality, whole = one["quality"]["in_time"], one["latency_ms"]["whole"]
        table.add_row(name, str(one["requests"]), *_quality_cells(quality), *_delta(whole["delta"], ",.0f"))
    console.print(table)

"""`infill-ls stats`: shows what you were shown, accepted and rejected; `infill-ls stats forget` deletes it."""

import argparse
import json
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from inference.models.printable import printable, say
from lsp_server.usage import usage
from lsp_server.usage.usage import COMPUTED, MS, PART, REJECTED, SHOWN, WHOLE, Key, usage_file

EXIT_FAILED = 1
EXIT_NONE = 3
_GROUPS: dict[str, Callable[[Key], str]] = {
    "total": lambda _: "all",
    "language": lambda key: key.language,
    "trigger": lambda key: key.trigger,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_report_arguments(parser)
    actions = parser.add_subparsers(dest="action", metavar="forget")
    actions.add_parser("forget", help="delete all records, including those of `infill-ls shadow`")


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--days", type=days, default=30, metavar="N", help="cover the last N days (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Prints the numbers, or deletes them. Exit status 1 if the file is unusable, 3 if nothing is recorded."""
    try:
        if args.action:
            deleted = "\n".join(f"Deleted: {printable(file)}" for file in usage.forget(usage_file()))
            print(deleted or f"Nothing is recorded in {printable(usage_file().parent)}.")
            return 0
        counts, _ = usage.read(usage_file(), args.days)
    except (sqlite3.Error, OSError) as error:
        say(usage.in_words(usage_file(), error), "infill-ls stats")
        return EXIT_FAILED
    found = {name: _grouped(counts, name) for name in _GROUPS}
    if args.json:
        print(json.dumps({"file": str(usage_file()), "days": args.days, **found}))
    else:
        print_rows([row for group in found.values() for row in group], f"Nothing was shown in {args.days} days.")
        print(f"infill-ls counts answers and times, keeps no text, and sends nothing: {printable(usage_file())}")
        print('`infill-ls stats forget` deletes it; the setting statistics = "off" ends it.')
    return 0 if counts else EXIT_NONE


def _grouped(counts: Mapping[Key, float], name: str) -> list[dict[str, object]]:
    groups: dict[str, dict[str, float]] = {}
    for key, count in counts.items():
        group = groups.setdefault(_GROUPS[name](key), {})
        group[key.event] = group.get(key.event, 0) + count
    return [{name: group, **_figures(events)} for group, events in sorted(groups.items())]


def _figures(events: Mapping[str, float]) -> dict[str, object]:
    figures: dict[str, object] = {event: int(events.get(event, 0)) for event in (SHOWN, WHOLE, PART, REJECTED)}
    computed = events.get(COMPUTED)
    return {**figures, "mean ms": round(events.get(MS, 0) / computed) if computed else None}


def print_rows(rows: Sequence[Mapping[str, object]], otherwise: str) -> None:
    """Prints rows as a table, its first column under the name that most have, or what to say if there is none."""
    if not rows:
        print(otherwise)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, heading in enumerate(list(rows[0])):
        table.add_column(heading if at else "", justify="right" if at else "left")
    for row in rows:
        table.add_row(*("-" if value is None else printable(value) for value in row.values()))
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120).print(table)


def days(text: str) -> int:
    """A number of days within the retention period. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= usage.KEPT_DAYS):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of days from 1 to {usage.KEPT_DAYS}")
    return int(text)

"""`infill-ls stats`: shows what you were shown, accepted and rejected; `infill-ls stats forget` deletes it."""

import argparse
import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from inference.terminal import print_message, printable
from lsp_server.commands.arguments import whole_number
from lsp_server.usage import statistics
from lsp_server.usage.statistics import usage_file

EXIT_FAILED = 1
EXIT_NOTHING_RECORDED = 3
_MAX_DAYS = 999_999_999
_COUNTS = """
SELECT {},
    CAST(TOTAL(count * (event = 'shown')) AS INTEGER) AS shown,
    CAST(TOTAL(count * (event = 'whole')) AS INTEGER) AS whole,
    CAST(TOTAL(count * (event = 'part')) AS INTEGER) AS part,
    CAST(TOTAL(count * (event = 'rejected')) AS INTEGER) AS rejected,
    CAST(ROUND(TOTAL(count * (event = 'ms')) / NULLIF(TOTAL(count * (event = 'computed')), 0)) AS INTEGER) AS "mean ms"
FROM counter WHERE day > date('now', 'localtime', ?) GROUP BY 1 ORDER BY 1
"""
_GROUPS = {"total": "'all' AS total", "language": "language", "trigger": "trigger"}
_NOTE = """infill-ls counts answers and times, keeps no text, and sends nothing: {file}
`infill-ls stats forget` deletes it; the setting statistics = "off" ends it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    days = "cover the last N days (default: %(default)s)"
    parser.add_argument("--days", type=partial(whole_number, 1, _MAX_DAYS), default=30, metavar="N", help=days)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    actions = parser.add_subparsers(dest="action", metavar="[forget]")
    actions.add_parser("forget", help="delete all records")


def run(args: argparse.Namespace) -> int:
    """Prints the numbers, or deletes them. Exit status 1 if the file is unusable, 3 if nothing is recorded."""
    return _forget() if args.action else _print_report(args)


def _forget() -> int:
    try:
        deleted = "\n".join(f"Deleted: {printable(file)}" for file in statistics.delete_files(usage_file()))
    except OSError as error:
        print_message(statistics.storage_error_message(usage_file(), error), "infill-ls stats")
        return EXIT_FAILED
    print(deleted or f"Nothing is recorded in {printable(usage_file().parent)}.")
    return 0


def _print_report(args: argparse.Namespace) -> int:
    """Prints the counts, by group as JSON, or in one table."""
    file = usage_file()
    try:
        results = {
            name: statistics.query_rows(file, _COUNTS.format(column), args.days) for name, column in _GROUPS.items()
        }
    except (sqlite3.Error, OSError) as error:
        print_message(statistics.storage_error_message(file, error), "infill-ls stats")
        return EXIT_FAILED
    rows = [row for result in results.values() for row in result]
    if args.json:
        print(json.dumps({"file": str(file), "days": args.days, **results}))
    else:
        _show(rows) if rows else print(f"Nothing was shown in {args.days} days.")
        print(_NOTE.format(file=printable(file)))
    return 0 if rows else EXIT_NOTHING_RECORDED


def _show(rows: Sequence[Mapping[str, object]]) -> None:
    """The rows as a table, whose first column needs no heading."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(rows[0]):
        table.add_column(heading if index else "", justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*("-" if value is None else printable(value) for value in row.values()))
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120).print(table)

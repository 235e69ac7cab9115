"""`infill-ls shadow report` tells which of two models writes what you keep."""

import argparse
import json
import sqlite3
import statistics
from collections.abc import Sequence

from inference.models.printable import say
from lsp_server.commands.stats import EXIT_FAILED, EXIT_NONE, add_report_arguments, print_rows
from lsp_server.usage import usage
from lsp_server.usage.usage import Pair, usage_file

_NOTHING = (
    "Nothing is recorded. Set partner.url, and shadow.sample to the share of requests for both models (such as 0.2)."
)
_NOTE = """`main` and `other`: how similar each model's text is to what you saved (1: the same). What you accept counts
for the main model. `infill-ls stats forget` deletes these records, and the statistics."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="report")
    add_report_arguments(actions.add_parser("report", help="compare the two models on your own requests"))


def run(args: argparse.Namespace) -> int:
    """Prints the report. Exit status 1 if the file is unusable, 3 if nothing is recorded."""
    try:
        _, pairs = usage.read(usage_file(), args.days)
    except (sqlite3.Error, OSError) as error:
        say(usage.in_words(usage_file(), error), "infill-ls shadow")
        return EXIT_FAILED
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        for language in ("all", pair.language):
            groups.setdefault((pair.main_model, pair.other_model, language), []).append(pair)
    rows = [
        {"models": f"{main}, {other}: {language}", **_figures(group)}
        for (main, other, language), group in sorted(groups.items())
    ]
    if args.json:
        print(json.dumps({"file": str(usage_file()), "days": args.days, "comparisons": rows}))
    else:
        print_rows(rows, _NOTHING)
        print(_NOTE)
    return 0 if rows else EXIT_NONE


def _figures(pairs: Sequence[Pair]) -> dict[str, object]:
    both = [pair for pair in pairs if pair.other_similarity is not None]
    return {
        "requests": len(pairs),
        "answered": sum(pair.outcome == "answered" for pair in pairs),
        "saved": len(both),
        "main": _mean([pair.main_similarity or 0 for pair in both], 3),
        "other": _mean([pair.other_similarity or 0 for pair in both], 3),
        "main ms": _mean([pair.main_ms for pair in pairs]),
        "other ms": _mean([pair.other_ms for pair in pairs if pair.other_ms is not None]),
    }


def _mean(values: Sequence[float], digits: int = 0) -> float | None:
    return round(statistics.fmean(values), digits or None) if values else None

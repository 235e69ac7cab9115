"""`infill-ls stats`: shows what you were shown, accepted and kept; `infill-ls stats forget` deletes it."""

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from rich.console import Console
from rich.table import Table

from inference.models.printable import printable, say
from lsp_server.usage import store
from lsp_server.usage.figures import ESTIMATE, FEW, report
from lsp_server.usage.place import usage_file
from lsp_server.usage.reading import read
from lsp_server.usage.set_aside import forget_set_aside, set_aside
from lsp_server.usage.store import KEPT_DAYS, UsageFileError

EXIT_FAILED, EXIT_NONE = 1, 3
_DAY_S = 86_400
_BAR = 24
_DAYS_SHOWN = 14
_GROUPS = {"by_language": "language", "by_kind": "kind of hole", "by_trigger": "how it came", "by_day": "day"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--days", type=days, default=30, metavar="N", help="of the last N days (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    actions = parser.add_subparsers(dest="action", metavar="forget")
    actions.add_parser("forget", help="delete all records")


def run(args: argparse.Namespace) -> int:
    """Prints the numbers, or forgets them. Exit status 1 if the file is unusable, 3 if nothing is recorded."""
    try:
        return _forget_all() if args.action else _print(args)
    except (UsageFileError, sqlite3.Error, OSError) as error:
        warn("stats", str(error))
        return EXIT_FAILED


def _forget_all() -> int:
    said = "suggestions forgotten; {file} is empty."
    try:
        return forget("stats", store.forget, said)
    except store.NewerFileError:
        store.give_up_newer(usage_file())
        return forget(
            "stats", store.forget, "suggestions of this version forgotten, and all of a newer one; {file} is empty."
        )


def forget(command: str, delete: Callable[[sqlite3.Connection], int], said: str) -> int:
    """Runs `delete` on the user's file, and says how much it deleted. Raises UsageFileError, sqlite3.Error, OSError."""
    file = usage_file()
    if not file.exists() and not file.is_symlink() and not set_aside(file):
        print(f"Nothing is recorded in {printable(file)}.")
        return 0
    connection, moved = store.open_store(file)
    with closing(connection):
        print(f"{delete(connection)} {said.format(file=printable(file))}")
    warn(command, moved)
    for other in forget_set_aside(file):
        print(f"Left as it is, since it was never ours: {printable(other)}")
    return 0


def _print(args: argparse.Namespace) -> int:
    file = usage_file()
    recorded = read(file, time.time() - args.days * _DAY_S)
    warn("stats", recorded.moved)
    found = {"file": str(file), "days": args.days, **report(recorded)}
    if args.json:
        print(json.dumps(found))
    else:
        _show(found)
    return 0 if recorded.suggestions else EXIT_NONE


def warn(command: str, message: str) -> None:
    """Prints any problem, as one of the program's commands."""
    if message:
        say(message, f"infill-ls {command}")


def _show(found: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 100)
    total = found["total"]
    if not total["shown"]:
        console.print(f"Nothing was shown in the last {found['days']} days.")
    else:
        _show_total(console, total, found["days"])
        _show_latency(console, total["latency_ms"])
        for group, title in _GROUPS.items():
            _show_group(console, title, dict(list(found[group].items())[-_DAYS_SHOWN:]))
    if (edits := found["next_edits"])["offered"]:
        told = "{offered} offered, {accepted} accepted, {dismissed} dismissed".format(**edits)
        console.print(f"\nNext edits: {told}.")
    if 0 < total["shown"] < FEW:
        console.print(f"\nOnly {total['shown']} so far: below {FEW}, these shares are little more than chance.")
    if found["lost_events"]:
        console.print(f"\n{found['lost_events']} events are missing: the disk was too slow for them.")
    where = "infill-ls records lengths, times and similarities, no text and no file names, and sends nothing"
    console.print(f"\n{where}: {printable(found['file'])}", soft_wrap=True)
    console.print('infill-ls stats forget deletes it; the setting statistics = "off" ends it.', soft_wrap=True)


def _show_total(console: Console, total: dict[str, Any], days: int) -> None:
    taken = total["whole"] + total["part"]
    console.print(f"The last {days} days: {total['shown']} suggestions shown\n", style="bold")
    table = Table.grid(padding=(0, 2))
    counts = {"taken": taken, "rejected": total["rejected"], "neither": total["neither"]}
    styles = {"taken": "green", "rejected": "red", "neither": "dim"}
    for name, count in counts.items():
        share = count / total["shown"]
        note = f"{total['whole']} whole, {total['part']} in part" if name == "taken" else ""
        table.add_row(name, str(count), f"{share:.0%}", _bar(share), note, style=styles[name])
    console.print(table)
    if not taken:
        return
    looks = (("at the next save", total["at_save"]), ("5 minutes later", total["later"]))
    kept = [f"{seen['similarity']:.0%} {when} (of {seen['seen']})" for when, seen in looks if seen["seen"]]
    console.print(f"\nOf what was taken stood there: {', '.join(kept) or 'not looked at yet'}.", soft_wrap=True)
    written = f"{total['kept_characters']:,} of {total['taken_characters']:,} accepted characters were kept"
    console.print(f"{written}: about {_duration(total['saved_s'])} of typing.")
    console.print(f"({ESTIMATE})", style="dim", soft_wrap=True)
    if total["unseen_characters"]:
        console.print(f"({total['unseen_characters']:,} characters were never looked at again)", style="dim")


def _show_latency(console: Console, latency: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("\nms from the request", "\nanswers", "\np50", "\np95", "\np99"):
        table.add_column(heading, justify="right" if heading != "\nms from the request" else "left")
    for name, times in (
        ("to the first draft", latency["computed"]["first_draft"]),
        ("to the answer, computed", latency["computed"]["whole"]),
        ("to the answer, remembered", latency["remembered"]["whole"]),
    ):
        if times["answers"]:
            table.add_row(name, str(times["answers"]), *(_ms(times[cut]) for cut in ("p50", "p95", "p99")))
    console.print(table)


def _show_group(console: Console, title: str, groups: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"\n{title}", min_width=12)
    for heading in ("shown", "taken", "", "rejected", "kept", "p50 ms", "saved"):
        table.add_column(f"\n{heading}", justify="left" if not heading else "right")
    for name, one in groups.items():
        share = (one["whole"] + one["part"]) / one["shown"]
        seen = one["later"] if one["later"]["seen"] else one["at_save"]
        table.add_row(
            printable(name),
            str(one["shown"]),
            f"{share:.0%}",
            _bar(share, 12),
            f"{one['rejected'] / one['shown']:.0%}",
            f"{seen['similarity']:.0%}" if seen["seen"] else "-",
            _ms(one["latency_ms"]["computed"]["whole"]["p50"]),
            _duration(one["saved_s"]),
        )
    console.print(table)


def _bar(share: float, width: int = _BAR) -> str:
    return "█" * round(share * width) + "░" * (width - round(share * width))


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def days(text: str) -> int:
    """A number of days within the retention period. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= KEPT_DAYS):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of days from 1 to {KEPT_DAYS}")
    return int(text)

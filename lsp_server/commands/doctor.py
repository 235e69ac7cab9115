"""`infill-ls doctor`: what was found on this machine, and what to do about it."""

import argparse
import dataclasses
import json

from rich.console import Console

from lsp_server.commands.fill import add_model_arguments
from lsp_server.commands.worker import options_of
from lsp_server.doctor import Check, Verdict, examine
from lsp_server.settings_schema import json_schema

_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model_arguments(parser)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    shape.add_argument("--schema", action="store_true", help="print the JSON Schema of the settings, and check nothing")


def run(args: argparse.Namespace) -> int:
    """Prints every check; exit status 1 when one failed."""
    if args.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    checks = examine(options_of(args))
    healthy = all(check.verdict is not Verdict.FAIL for check in checks)
    if args.json:
        print(json.dumps({"healthy": healthy, "checks": [dataclasses.asdict(check) for check in checks]}))
    else:
        _show(checks)
    return 0 if healthy else 1


def _show(checks: list[Check]) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    width = max(len(check.name) for check in checks)
    for check in checks:
        console.print(f"{check.verdict:4}", style=_STYLES[check.verdict], end="  ")
        console.print(f"{check.name:{width}}  {check.found}")
        if check.advice:
            console.print(f"{'':{width + 8}}{check.advice}", style="bold")

"""`infill-ls doctor`: checks this machine, the settings and a file, and says what to do."""

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from inference.models.catalogue import AUTO
from inference.models.printable import printable
from lsp_server.commands import output
from lsp_server.commands.arguments import add_model_arguments, given_settings
from lsp_server.diagnosis.file_report import examine_file, examine_settings
from lsp_server.diagnosis.machine import examine_worker
from lsp_server.diagnosis.models import Tell
from lsp_server.diagnosis.workers import Check, Grade
from lsp_server.documents.uris import names_of
from lsp_server.settings.launch import edit_model_options, partner_options, worker_options
from lsp_server.settings.resolver import NAME, Configuration
from lsp_server.settings.schema import Settings, json_schema
from lsp_server.worker.paths import paths_of

EXIT_USAGE = 2
_NAME_COLUMNS = 24
_STYLES = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a file that gets no fills")
    parser.add_argument("--at", metavar="LINE:COL", help="a position in it, counted from 1")
    add_model_arguments(parser)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    shape.add_argument("--schema", action="store_true", help="print the JSON Schema of the settings and exit")


def run(args: argparse.Namespace) -> int:
    """Prints every check; exit status 1 if one failed, 2 for bad arguments."""
    if args.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    if args.at and not args.file:
        print("infill-ls: --at LINE:COL needs a FILE", file=sys.stderr)
        return EXIT_USAGE
    checks: list[Check] = []
    for check in _examine(args, output.telling(as_json=args.json)):
        checks.append(check)
        if not args.json:
            _show(check)
    healthy = all(check.verdict is not Grade.FAIL for check in checks)
    if args.json:
        print(json.dumps({"healthy": healthy, "checks": [dataclasses.asdict(check) for check in checks]}))
    return 0 if healthy else 1


def _examine(args: argparse.Namespace, tell: Tell) -> Iterator[Check]:
    """The checks of the program, of the models, of the settings in effect here, and of the file, if given."""
    path = (args.file or Path(NAME)).absolute()  # whose settings are those of this folder
    configuration = Configuration(given_settings(args), os.environ, around=names_of(path))
    settings = configuration.at(path)
    options = worker_options(settings, sends_token=configuration.sends_token)
    yield Check("infill-ls", Grade.OK, version("infill-ls"))
    yield Check("python", Grade.OK, f"{platform.python_version()} at {sys.executable}")
    yield from examine_worker(options, tell)
    yield Check("log", Grade.OK, str(paths_of(options).log))
    if settings.partner.url and not options.partner:
        yield from examine_worker(partner_options(settings, sends_token=configuration.sends_partner_token), tell)
    yield from _edit_model(settings, tell)
    yield from examine_settings(configuration)
    if args.file:
        yield from examine_file(args.file, args.at, configuration)


def _edit_model(settings: Settings, tell: Tell) -> Iterator[Check]:
    if options := edit_model_options(settings):
        yield from examine_worker(options, tell)
    elif settings.next_edit.model == AUTO:
        found = "none is on this machine; rules alone find next edits, and the model that fills where it can judge"
        yield Check("edit model", Grade.OK, f"{found} (see: infill-ls models)")


def _show(check: Check) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{check.verdict:4}", style=_STYLES[check.verdict], end="  ")
    console.print(f"{printable(check.name):{_NAME_COLUMNS}}  {printable(check.found)}")
    if check.advice:
        console.print(f"{'':{_NAME_COLUMNS + 8}}{printable(check.advice)}", style="bold")
    sys.stdout.flush()

"""`infill-ls next`: finds what no longer fits in a file compared with an older text of it, if privacy allows it."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from lsp_server.commands import output
from lsp_server.commands.arguments import add_shape_arguments
from lsp_server.commands.fill import EXIT_BAD_INPUT, require_allowed, say
from lsp_server.documents.change import Change, difference
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.documents.reading import BadInput, read_named_file, read_standard_input
from lsp_server.documents.writing import replace_text
from lsp_server.next_edit.finder import MOST_OFFERS, nearest, next_edits
from lsp_server.next_edit.renames import NextEdit
from lsp_server.settings.resolver import configuration_for
from lsp_server.syntax.languages import language_of
from lsp_server.syntax.source import ParsedText

STDIN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the current file (UTF-8)")
    parser.add_argument(
        "--since", required=True, metavar="OLDFILE", help="the file before the last changes; - reads it from stdin"
    )
    add_shape_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Makes the edits that follow, one after the other. Exit status 0 even if none does, 2 for bad input."""
    try:
        path = Path(os.path.abspath(args.file))  # noqa: PTH100 - does not follow links
        real = require_allowed(args.file, path, configuration_for(path, {}, os.environ).at(path))
        text = read_named_file(args.file, real)
        old = read_standard_input() if args.since == STDIN else read_named_file(Path(args.since))
        edits, result = all_edits(language_of(str(path)), old, text)
        if args.write and edits:
            replace_text(args.file, real, text, result)
    except BadInput as error:
        say(str(error))
        return EXIT_BAD_INPUT
    _show(args, text, edits, result)
    return 0


def all_edits(language_id: str, old: str, text: str) -> tuple[list[dict[str, Any]], str]:
    """The edits that follow from the change from `old` to `text`, each after the previous one, and the whole result."""
    edits: list[dict[str, Any]] = []
    cursor = difference(old, text).start
    while len(edits) < MOST_OFFERS:
        offered = nearest(next_edits(ParsedText.parse(language_id, text), [old]), cursor)
        if offered is None:
            break
        edits.append(_json(text, offered))
        text = Change(offered.start, text[offered.start : offered.end], offered.text).applied(text)
        cursor = offered.start
    return edits, text


def _json(text: str, edit: NextEdit) -> dict[str, Any]:
    lines = LineIndex(text)
    places = (lines.position(at, Encoding.UTF16) for at in (edit.start, edit.end))
    start, end = ({"line": line, "character": character} for line, character in places)
    return {"range": {"start": start, "end": end}, "text": edit.text}


def _show(args: argparse.Namespace, text: str, edits: list[dict[str, Any]], result: str) -> None:
    if args.json:
        output.write(json.dumps({"edits": edits, "result": result}, ensure_ascii=False) + "\n")
    elif args.diff:
        output.write(output.diff(text, result, str(args.file)))
    elif args.write:
        print(f"{args.file}: {len(edits)} places changed", file=sys.stderr)
    else:
        output.write(result)

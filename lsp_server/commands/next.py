"""`infill-ls next`: finds what no longer fits in a file compared with an older text of it, if privacy allows it.

Asks the syntax first, then the model, as in an editor; without a model on this machine the syntax alone.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from inference.messages import WorkerOptions
from inference.models import catalogue, model_store
from inference.models.catalogue import AUTO, EMBEDDED
from inference.terminal import say
from lsp_server.commands import output
from lsp_server.commands.arguments import (
    add_model_arguments,
    add_output_arguments,
    add_trust_workspace_argument,
)
from lsp_server.commands.fill import EXIT_BAD_INPUT, open_with_settings
from lsp_server.documents.change import minimal_change
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.documents.reading import BadInputError, read_standard_input, replace_text
from lsp_server.next_edit import model
from lsp_server.next_edit.cross_file import NextEditInput
from lsp_server.next_edit.edits import MAX_OFFERS, NextEdit, nearest_edit
from lsp_server.next_edit.finder import HalfRenameError, next_edits, unfinished_renames
from lsp_server.settings.configuration import Configuration
from lsp_server.settings.worker_options import edit_model_options, is_remote, worker_options
from lsp_server.worker import WorkerClient, WorkerError

_MAX_REWRITES = 8
"""How often to ask an edit model, which may rewrite what it wrote."""
_MAX_EDITS = 5_000
Propose = Callable[[NextEditInput], Awaitable[Sequence[NextEdit]]]
"""Asks a model for edits."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the current file (UTF-8)")
    parser.add_argument(
        "--since", required=True, metavar="OLDFILE", help="the file before the last changes; - reads it from stdin"
    )
    add_output_arguments(parser)
    add_model_arguments(parser)
    add_trust_workspace_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Makes the edits that follow, one after the other. Exit status 0 even if none does, 2 for bad input."""
    try:
        file = open_with_settings(args.file, args)
        text = file.snapshot.text
        old = read_standard_input() if args.since == "-" else open_with_settings(Path(args.since), args).snapshot.text
        edits, result = asyncio.run(_edits_with_model(file.snapshot, old, file.configuration, args))
        if args.write and edits:
            replace_text(args.file, file.real_path, text, result)
    except HalfRenameError as error:
        say(f"{args.file}: {error}; nothing was changed: rename it with your editor's language server")
        return EXIT_BAD_INPUT
    except BadInputError as error:
        say(error)
        return EXIT_BAD_INPUT
    output.print_change(
        args, args.file, (text, result), {"edits": edits, "result": result}, f"{len(edits)} places changed"
    )
    return 0


async def _edits_with_model(
    now: Snapshot, old: str, configuration: Configuration, args: argparse.Namespace
) -> tuple[list[dict[str, Any]], str]:
    """See `all_edits`. If the model fails, says so and leaves it out."""
    edit_model = edit_model_options(configuration.for_uri(now.uri))
    options = edit_model or worker_options(configuration.for_uri(now.uri), sends_token=configuration.sends_token)
    if edit_model is None and not _has_model(options):
        if is_remote(options):
            say("no edits from the model: set nextEdit.model to an edit model, or model to one on this machine")
        return await all_edits(now, old)
    with output.live_draft_display(now, (), args) as (on_status, _):
        async with WorkerClient(options, name="infill-ls next", on_status=on_status) as client:
            remaining = iter(range(_MAX_REWRITES if edit_model else MAX_OFFERS))

            async def propose(situation: NextEditInput) -> Sequence[NextEdit]:
                if next(remaining, None) is None:
                    return ()
                try:
                    await client.load()
                    return await model.request_edits(client, situation, configuration.name_of)
                except WorkerError as failure:
                    say(f"no edits from the model: {failure}")
                    return ()

            return await all_edits(now, old, propose)


def _has_model(options: WorkerOptions) -> bool:
    """Whether this machine has a model that may know more than the syntax."""
    if options.model == AUTO:
        return any(entry.repo and not entry.edit_kind and model_store.is_pulled(entry) for entry in catalogue.ENTRIES)
    return options.model != EMBEDDED and not is_remote(options)


async def all_edits(now: Snapshot, old: str, propose: Propose | None = None) -> tuple[list[dict[str, Any]], str]:
    """The edits that follow from the change from `old`, and the text with all of them.

    Each edit applies to the text after the previous one. Their ranges are those of the protocol, in UTF-16. Raises
    HalfRenameError: a rename is made everywhere or not at all.
    """
    edits: list[dict[str, Any]] = []
    old_texts = [old]
    cursor = minimal_change(old, now.text).start
    renames = unfinished_renames(now, old)
    while len(edits) < _MAX_EDITS:
        remaining, text = next_edits(now, [old]), now.text
        if not remaining and propose and len(edits) < MAX_OFFERS:
            remaining = list(await propose(NextEditInput(now, old_texts, cursor)))
        if not remaining:
            break
        old_texts.insert(0, text)
        while edit := nearest_edit(remaining, cursor):
            edits.append(_json(text, edit))
            remaining.remove(edit)
            change = edit.change(text)
            text, cursor = change.applied(text), edit.start
            remaining = [moved for item in remaining if (moved := item.after(change)) is not None]
        now = Document(now.uri, now.language_id, 0, text).snapshot()
    if half := min(renames & unfinished_renames(now, old), default=""):
        raise HalfRenameError(f"after {len(edits)} places, it could not {half} everywhere")
    return edits, now.text


def _json(text: str, edit: NextEdit) -> dict[str, Any]:
    lines = LineIndex(text)
    positions = (lines.position(offset, Encoding.UTF16) for offset in (edit.start, edit.end))
    start, end = ({"line": line, "character": character} for line, character in positions)
    return {"range": {"start": start, "end": end}, "text": edit.text}

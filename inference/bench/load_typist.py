"""A simulated user who types a recording, for `infill-ls bench load`."""

import asyncio
import gzip
import json
import time
from importlib.resources import files
from typing import Any

from inference.bench.load_editor import LoadEditor

FILE = "load_keystrokes.jsonl.gz"
_PATIENCE_S = 60.0
_AFTER_S = 0.35
"""The time a user needs to see a suggestion and press Tab."""
Recording = dict[str, Any]


def recordings() -> list[Recording]:
    """The sessions that `load_record` has written: their initial text, and each edit."""
    content = (files("inference.bench") / FILE).read_bytes()
    return [json.loads(line) for line in gzip.decompress(content).splitlines()]


async def replay(editor: LoadEditor, recording: Recording, until: float) -> None:
    """Types until the monotonic clock reaches `until`, restarting when the recording ends. Awaits all replies.

    Accepts a suggestion instead of typing if it is what comes next.
    """
    await _once(editor, recording, until)
    while time.monotonic() < until:
        editor.replace_all(recording["text"])
        await _once(editor, recording, until)
    await editor.all_answered(_PATIENCE_S)


async def _once(editor: LoadEditor, recording: Recording, until: float) -> None:
    edits = recording["edits"]
    number = 0
    while number < len(edits) and time.monotonic() < until:
        pause_ms, offset, removed, new = edits[number]
        await asyncio.sleep(pause_ms / 1000)
        shown = editor.shown
        if shown and len(shown.rest) > 2 and shown.offset == offset and _coming(edits[number:]).startswith(shown.rest):
            await asyncio.sleep(_AFTER_S)
            taken = len(shown.rest)
            editor.accept(shown)
            while taken > 0:
                taken -= len(edits[number][3])
                number += 1
        else:
            editor.edit(offset, removed, new)
            number += 1


def _coming(edits: list[Any]) -> str:
    """The rest of the line, up to any slip in it."""
    found, offset = "", edits[0][1]
    for _, at, removed, new in edits:
        if removed or len(new) != 1 or at != offset + len(found):
            break
        found += new
    return found

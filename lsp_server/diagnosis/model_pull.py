"""Downloads a model for an editor, in a process of its own: `infill-ls models pull` without a terminal."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from inference.models import catalogue

_MODULE = "inference.models.pull"
_LONGEST_LINE = 1 << 16


class NotPulled(Exception):
    """The model is not here. str() says why, and what to do."""


async def pull(model: str, report: Callable[[str, int], None]) -> None:
    """Pulls a model of the catalogue under a free licence. Cancelled, it leaves what is here for the next try.

    `report` is called with what it does and the percentage done. Raises NotPulled.
    """
    entry = catalogue.find(model)
    if not entry or not entry.repo:
        raise NotPulled(f"there is no model {model[:100]!r} to download; `infill-ls models` shows those that there are")
    if entry.licence.lower() not in catalogue.FREE:
        why = f"the licence of {entry.name} ({entry.licence}) is to be read and accepted"
        raise NotPulled(f"{why}: run in a terminal: infill-ls models pull {entry.name}")
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    words = [sys.executable, "-P", "-m", _MODULE, entry.name, "--json"]
    process = await asyncio.create_subprocess_exec(*words, stdin=nothing, stdout=pipe, stderr=pipe, limit=_LONGEST_LINE)
    assert process.stdout and process.stderr
    try:
        errors = asyncio.create_task(process.stderr.read())
        async for line in process.stdout:
            if (told := _progress(line)) is not None:
                report(*told)
        if await process.wait():
            said = (await errors).decode(errors="replace").strip().partition(": ")[2]
            raise NotPulled(
                said[:1000] or f"the download of {entry.name} failed; run: infill-ls models pull {entry.name}"
            )
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _progress(line: bytes) -> tuple[str, int] | None:
    """What the pull does and the percentage done; None for a line that does not say so."""
    try:
        told: Any = json.loads(line)
        here, total = int(told["bytes"]), int(told["total"])
        return f"{here / 1e6:.0f} of {total / 1e6:.0f} MB", min(100, here * 100 // max(total, 1))
    except (ValueError, TypeError, KeyError):
        return None

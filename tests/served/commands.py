"""`infill-ls` as a process, with a partner in its environment."""

import asyncio
from pathlib import Path

from tests.workers import Finished, infill_ls

PATIENT = {"INFILL_LS_DEADLINE_MS_INVOKED": "100000"}


async def with_partner(runtime: Path, url: str, model: str, *words: str) -> Finished:
    given = {"INFILL_LS_PARTNER_URL": url, "INFILL_LS_PARTNER_MODEL": model, **PATIENT}
    return await asyncio.to_thread(infill_ls, *words, folder=runtime, **given)


async def check_fills_alone(folder: Path, runtime: Path, url: str, model: str) -> None:
    """The partner at `url` fills a file by itself, and nothing around the hole changes."""
    file = folder / "sized.py"
    file.write_text("import os\n\n\ndef size(path):\n    return ???\n\n\nprint(size('a'))\n")
    done = await with_partner(runtime, url, model, "fill", str(file), "--model", "partner")
    assert done.returncode == 0, done.stderr
    before, after = file.read_text().split("???")
    assert done.stdout.startswith(before)
    assert done.stdout.endswith(after)
    assert done.stdout[len(before) : -len(after)].strip()

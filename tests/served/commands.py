"""`infill-ls` as a process, with a partner in its environment."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path


async def with_partner(runtime: Path, url: str, model: str, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {
        "INFILL_LS_RUNTIME_DIR": str(runtime),
        "INFILL_LS_PARTNER_URL": url,
        "INFILL_LS_PARTNER_MODEL": model,
        "INFILL_LS_DEADLINE_MS_INVOKED": "120000",
    }
    command = (sys.executable, "-m", "lsp_server.cli", *words)
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, env=environment, check=False
    )


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

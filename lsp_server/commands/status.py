"""`infill-ls status`: the resident workers that run. Starts none."""

import argparse
import asyncio
import json

import msgspec
from rich.console import Console

from inference.messages import Status
from lsp_server.worker.survey import Running, Survey, survey

EXIT_SILENT, EXIT_NONE = 1, 3
_LONG_STEP_S = 5.0
"""Worth telling: a step usually takes milliseconds."""
_STYLES = {"ready": "green", "busy": "cyan", "failed": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Prints the workers that run; exit status 3 when there is none, 1 when one does not answer."""
    found = asyncio.run(survey("infill-ls status"))
    if args.json:
        print(json.dumps(_survey_as_json(found)))
    else:
        _show(found)
    if found.silent:
        return EXIT_SILENT
    return 0 if found.running else EXIT_NONE


def _survey_as_json(found: Survey) -> dict[str, object]:
    silent = [{"pid": it.pid, "socket": str(it.paths.socket), "log": str(it.paths.log)} for it in found.silent]
    return {"running": bool(found.running), "workers": [as_json(it) for it in found.running], "silent": silent}


def as_json(worker: Running) -> dict[str, object]:
    """One worker as JSON: its status, and where it is."""
    return {
        **msgspec.structs.asdict(worker.status),
        "release": worker.release,
        "socket": str(worker.paths.socket),
        "log": str(worker.paths.log),
    }


def describe(status: Status) -> str:
    """What a worker is and does, in one line."""
    words = [f"{status.model} on {status.device or 'a device to be chosen'} {status.dtype}".strip()]
    if status.detail:
        words.append(f"{status.progress:.0%} {status.detail}" if status.state == "loading" else status.detail)
    words += [f"process {status.pid}", f"up {duration(status.uptime_s)}", size(status.memory_bytes)]
    if status.device_memory_bytes:
        words.append(f"{size(status.device_memory_bytes)} on the device")
    if status.step_s >= _LONG_STEP_S:
        words.append(f"{duration(status.step_s)} in one step")
    words += [f"clients {status.clients}", f"running {status.running}", f"waiting {status.waiting}"]
    return ", ".join(words)


def duration(seconds: float) -> str:
    """A time span as people say it: `45 s`, `12 min`, `3 h 20 min`."""
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if hours < 1 else f"{hours} h {minutes % 60} min"


def size(count_bytes: float) -> str:
    """An amount of memory: `418 MB`, `51.2 GB`."""
    return f"{count_bytes / 1e9:.1f} GB" if count_bytes >= 1e9 else f"{count_bytes / 1e6:.0f} MB"


def _show(found: Survey) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not (found.running or found.silent):
        console.print("No worker is running; the first request starts one.")
    for worker in found.running:
        state = worker.status.state.value
        console.print(state, style=_STYLES.get(state, "yellow"), end=": ")
        console.print(describe(worker.status), markup=False)
    for silent in found.silent:
        console.print("silent", style="red", end=": ")
        console.print(str(silent), markup=False)

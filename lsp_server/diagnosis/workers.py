"""Describes the running workers, in one line each or as JSON."""

import msgspec

from inference.messages import Status
from lsp_server.worker.paths import WorkerPaths
from lsp_server.worker.survey import Survey

_LONG_STEP_S = 5.0
"""Report a longer step: one usually takes milliseconds."""


def survey_as_json(found: Survey) -> dict[str, object]:
    """All workers found, as JSON: each one's status and files."""
    running = [
        {**msgspec.structs.asdict(worker.status), "release": worker.release, **_files(worker.paths)}
        for worker in found.running
    ]
    silent = [{"pid": worker.pid, **_files(worker.paths)} for worker in found.silent]
    return {"running": bool(running), "workers": running, "silent": silent}


def _files(paths: WorkerPaths) -> dict[str, object]:
    return {"socket": str(paths.socket), "log": str(paths.log)}


def describe_status(status: Status) -> str:
    """A worker's model and activity, in one line."""
    words = [f"{status.model} on {status.device or 'a device to be chosen'} {status.dtype}".strip()]
    if status.detail:
        words.append(f"{status.progress:.0%} {status.detail}" if status.state == "loading" else status.detail)
    words += [f"process {status.pid}", f"up {duration(status.uptime_s)}", size(status.memory_bytes)]
    if status.device_memory_bytes:
        words.append(f"{size(status.device_memory_bytes)} on the device")
    if status.token_ms:
        words.append(f"{status.token_ms:.0f} ms a token")
    if status.prompt_token_ms:
        words.append(f"{status.prompt_token_ms:.1f} ms a token of a prompt")
    if status.step_s >= _LONG_STEP_S:
        words.append(f"{duration(status.step_s)} in one step")
    words += _server(status)
    if status.choice:
        words.append(f"chosen as {status.choice}")
    if status.note:
        words.append(status.note)
    words += [f"clients {status.clients}", f"running {status.running}", f"waiting {status.waiting}"]
    return ", ".join(words)


def _server(status: Status) -> list[str]:
    """Where text goes, since when the server has answered, and its last failure."""
    if not status.server:
        return []
    if status.server_problem:
        return [f"text goes to {status.server}, which fails: {status.server_problem}"]
    answers = f", which has answered for {duration(status.server_up_s)}" if status.server_up_s else ""
    return [f"text goes to {status.server}{answers}"]


def duration(seconds: float) -> str:
    """A human-readable duration: `45 s`, `12 min`, `3 h 20 min`."""
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if hours < 1 else f"{hours} h {minutes % 60} min"


def size(count_bytes: float) -> str:
    """An amount of memory: `418 MB`, `51.2 GB`."""
    return f"{count_bytes / 1e9:.1f} GB" if count_bytes >= 1e9 else f"{count_bytes / 1e6:.0f} MB"

"""Describes the available models, from the findings of `inference.serving.probe`, and how an editor gets one."""

import asyncio
import json
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import platformdirs

from inference.install_hints import format_command
from inference.models import catalogue, discovery
from inference.models.catalogue import EMBEDDED
from inference.terminal import format_bytes
from lsp_server.worker.paths import APP_NAME, configured_runtime_folder, run_child

ADVICE_GIVEN_FILE = "told-of-models"
"""Exists once a user has been told about models."""
PROBE_S = 120.0
"""How long the probe may take; it imports torch, which takes long from a cold disk."""
_MAX_OFFERED = 2
_MAX_BYTES = {"cpu": 1.3e9}
"""A larger file belongs to a model that is too slow for a processor."""
OnActivity = Callable[[str], None]
"""Receives what a command is doing."""


async def probe_catalogue(device: str | None, report: OnActivity = lambda _: None) -> dict[str, Any]:
    """The models of the catalogue, and how each runs on this machine, from `inference.serving.probe`. Raises OSError,
    or ValueError, which says why it could not be examined.
    """
    messages: list[dict[str, Any]] = []

    def on_line(line: bytes) -> None:
        with suppress(ValueError, AttributeError):  # a library may print, too
            messages.append(json.loads(line))
            report(str(messages[-1].get("doing", "")))

    try:
        async with asyncio.timeout(PROBE_S):
            flags = ["--device", device] if device else []
            status, errors = await run_child(on_line, "inference.serving.probe", *flags)
    except TimeoutError:
        raise ValueError(f"no answer in {PROBE_S:.0f} s") from None
    if status or not messages:
        raise ValueError((errors.splitlines() or ["no output"])[-1])
    if not messages[-1]["catalogue"]:
        raise ValueError(messages[-1]["problem"])
    return dict(messages[-1]["catalogue"])


def recommended_model(catalogue: dict[str, Any]) -> dict[str, Any]:
    """The model for a new user of this machine."""
    (best,) = (model for model in catalogue["models"] if model["name"] == catalogue["recommended"])
    return dict(best)


def better_model_offer(catalogue: dict[str, Any]) -> dict[str, Any] | None:
    """An editor's one-time message to a new user: a better model than the embedded one; None if none runs here."""
    best = recommended_model(catalogue)
    device = catalogue["machine"]["device"]
    if best["name"] == EMBEDDED:
        return None
    source = (
        "is downloaded" if best["is_here"] else f"{format_bytes(best['download_bytes'])}, licence: {best['licence']}"
    )
    text = f"infill-ls uses the tiny model it comes with. Better: {best['name']}, which {best['words']} ({source})."
    return {
        "text": text,
        "steps": best["steps"],
        "shown": [*map(format_command, best["steps"])],
        "model": best["name"],
        "use": [
            {"title": f"Use {download['name']} from {download['program']}", "model": model_setting(download)}
            for download in _usable(catalogue.get("found", ()), device)
        ],
    }


def _usable(downloads: Iterable[dict[str, Any]], device: str) -> list[dict[str, Any]]:
    """The largest downloads of other programs that fill well on a device; "" counts as a processor."""
    max_bytes = _MAX_BYTES.get(device or "cpu", math.inf)
    return [download for download in downloads if download["fills"] and download["bytes_"] <= max_bytes][:_MAX_OFFERED]


def model_setting(download: dict[str, Any]) -> str:
    """The value of the setting `model` for another program's download: a name of Ollama's, otherwise the path."""
    return str(download["name"] if download["program"] == "Ollama" else download["path"])


def reuse_downloads_advice(downloads: Iterable[dict[str, Any]], device: str) -> str:
    """Advice to use what another program has downloaded, which continues other advice; "" if none fills holes."""
    settings = (
        f'`model = "{model_setting(download)}"` from {download["program"]}' for download in _usable(downloads, device)
    )
    return "".join(f"; or set {setting}, which is already on this machine" for setting in settings)


def other_programs_downloads() -> list[dict[str, Any]]:
    """The models that other programs have downloaded. Reads their folders, and each header in 0.03 s."""
    return [download.as_json() for download in discovery.discover_foreign_models()]


def claim_one_time_advice() -> bool:
    """Whether to tell this user about models; True once, unless that cannot be recorded."""
    folder = configured_runtime_folder() or platformdirs.user_cache_path(APP_NAME, appauthor=False)
    if (folder / ADVICE_GIVEN_FILE).exists():
        return False
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ADVICE_GIVEN_FILE).touch()
    return True


def steps_to_best_model(catalogue: dict[str, Any]) -> str:
    """The user's steps to get the best model and to use it, or to use one that is here."""
    model = recommended_model(catalogue)
    use = '`model = "auto"` uses it'
    if not model["steps"]:
        return use
    costs = f" ({format_bytes(model['download_bytes'])}, licence: {model['licence']})" if not model["is_here"] else ""
    more_advice = reuse_downloads_advice(catalogue["found"], catalogue["machine"]["device"])
    return f"run: {', then '.join(map(format_command, model['steps']))}{costs}; then {use}{more_advice}"


class NotPulledError(Exception):
    """The model is not here. str() says why, and what to do."""


async def pull(model: str, report: Callable[[str, int], None]) -> None:
    """Pulls a model under a free licence, and reports the percentage done; can be resumed. Raises NotPulledError."""
    entry = catalogue.find_entry(model)
    if not entry or not entry.repo:
        raise NotPulledError(f"no downloadable model is called {model[:100]!r}; `infill-ls models` lists them")
    if entry.licence.lower() not in catalogue.FREE_LICENCES:
        reason = f"{entry.name} needs you to accept its licence ({entry.licence})"
        raise NotPulledError(f"{reason}: run in a terminal: infill-ls models pull {entry.name}")

    def on_line(line: bytes) -> None:
        if (progress := _progress(line)) is not None:
            report(*progress)

    status, errors = await run_child(on_line, "inference.models.pull", entry.name, "--json")
    if status:
        message = errors.partition(": ")[2]
        raise NotPulledError(
            message[:1000] or f"the download of {entry.name} failed; run: infill-ls models pull {entry.name}"
        )


def _progress(line: bytes) -> tuple[str, int] | None:
    """The pull's activity and the percentage done; None for a line that does not say so."""
    try:
        message: Any = json.loads(line)
        done_bytes, total = int(message["bytes"]), int(message["total"])
        return f"{done_bytes / 1e6:.0f} of {total / 1e6:.0f} MB", min(100, done_bytes * 100 // max(total, 1))
    except (ValueError, TypeError, KeyError):
        return None

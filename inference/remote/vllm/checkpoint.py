"""Finds out what a server serves, without making it compute anything, and reads this machine's files of that model.

Those are its tokenizer and its infilling settings. No weights.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from inference.engine.canvas.vocabulary import Vocabulary
from inference.models import checkpoint, checkpoint_files, downloads
from inference.models.checkpoint import HUB_ID
from inference.models.family import ModelError
from inference.models.properties import CanvasTokens, NoiseKind, Properties
from inference.remote import address, http, served
from inference.remote.http import AnswerError, Client, ServerError
from inference.remote.vllm.canvas import Model
from inference.remote.vllm.wire import CompletionRequest, DiffusionArguments

_CANVAS = re.compile(r"diffusion_seed_canvas must hold exactly (\d+) ids")
_KNOWS_PINS = re.compile(r"diffusion_(seed_canvas|pinned)")
_START_IT = "start a vLLM 0.32 or later with a DiffusionGemma checkpoint: see inference/remote/server.md"
_LINE_STEPS = 8
_QUICK_STEPS = 4
"""For a checkpoint without settings, the same as models/diffusion_gemma assumes for a released one."""


@dataclass(frozen=True)
class CanvasModel:
    """A model on a server. `canvas_tokens` is the widest canvas it accepts, `context_tokens` prompt and canvas at most.

    `root` is the folder or hub id that the server was started with; empty: not known.
    """

    name: str
    root: str
    canvas_tokens: int
    context_tokens: int | None


async def look(client: Client, wanted: str | None) -> CanvasModel:
    """The server's model named `wanted`, None: its only model. Raises ModelError."""
    try:
        model = served.chosen(await http.models(client), wanted, client.url, "server.model")
        canvas = await _canvas_tokens(client, model.id)
    except AnswerError as error:
        raise ModelError(f"{client.url} does not answer as vLLM does ({error}); {_START_IT}") from error
    except ServerError as error:
        raise ModelError(str(error)) from error
    return CanvasModel(model.id, model.root or "", canvas, model.max_model_len)


async def _canvas_tokens(client: Client, name: str) -> int:
    """The width of the served canvas, from the refusal of an impossible one. Raises ModelError if it is accepted."""
    impossible = CompletionRequest(name, (1,), 1, DiffusionArguments((), (-1,)), logprobs=1)
    try:
        await client.post("/v1/completions", msgspec.json.encode(impossible))
    except ServerError as error:
        if found := _CANVAS.search(str(error)):
            return int(found[1])
        if not _KNOWS_PINS.search(str(error)):
            raise
        raise ModelError(f"{client.url} does not say how wide its canvas is ({error})") from error
    raise ModelError(
        f"{client.url} takes no pinned canvas for {name}: it is too old, or this is not a DiffusionGemma; {_START_IT}"
    )


class _Config(msgspec.Struct):
    model_type: str = ""
    canvas_length: CanvasTokens | None = None


def load(found: CanvasModel, wanted: str | None, url: str) -> Model:
    """The tokens and settings of a served model, from the folder or hub id `wanted`, or its own. Raises ModelError."""
    folder = _folder(found, wanted, url)
    config = checkpoint_files.read_json_if_any(folder / "config.json")  # a tokenizer is enough
    properties = checkpoint.stated_properties(folder, str(folder)) or _assumed(config)
    if properties.corruption == NoiseKind.MASK:
        raise ModelError(f"{url}: {found.name} knows only a mask token, and vLLM fills canvases with random tokens")
    properties = _within(properties, found, url)
    vocabulary = Vocabulary(
        checkpoint.Checkpoint(str(folder), folder, config, properties, weight_bytes=0).tokenizer(), []
    )
    vocabulary.prepare()
    return Model(found.name, vocabulary, properties)


def _folder(found: CanvasModel, wanted: str | None, url: str) -> Path:
    """The tokenizer's folder. The server's own path counts only if that is on this machine. Raises ModelError."""
    if wanted:
        return checkpoint.folder_of(wanted)
    try:
        if HUB_ID.fullmatch(found.root):
            return downloads.require(found.root)
        if not (address.parse(url).is_here and Path(found.root).is_absolute()):
            raise ModelError(f"{url} does not name a checkpoint of this machine")
        return checkpoint.folder_of(found.root)
    except ModelError as error:
        raise ModelError(
            f"{error}. {url} serves {found.name}; its tokenizer has to be here as well: set server.tokenizer or "
            "--server-tokenizer to a folder with its tokenizer.json (and infill.json, where it has one)"
        ) from error


def _assumed(config: dict[str, Any]) -> Properties:
    """The settings of a checkpoint without `infill.json`: those of a released one."""
    try:
        width = msgspec.convert(config, _Config).canvas_length or 256
    except msgspec.ValidationError:
        width = 256
    return Properties(canvas_tokens=width, prompt="chat", line_steps=_LINE_STEPS, quick_steps=_QUICK_STEPS)


def _within(properties: Properties, found: CanvasModel, url: str) -> Properties:
    """The same, with canvases and prefixes that the server accepts. Raises ModelError if it accepts next to nothing."""
    canvas = min(properties.canvas_tokens, found.canvas_tokens)
    context = found.context_tokens or properties.max_prefix_tokens + canvas
    least = 4
    if canvas < least or context <= canvas:
        raise ModelError(
            f"{url}: {found.name} is served with a canvas of {found.canvas_tokens} tokens and {context} in all, "
            "which leaves no room; raise canvas_length in --diffusion-config, or --max-model-len"
        )
    prefix = min(properties.max_prefix_tokens, context - canvas)
    limited = {
        "canvas_tokens": canvas,
        "max_prefix_tokens": prefix,
        "suffix_tokens": min(properties.suffix_tokens, canvas),
    }
    return msgspec.structs.replace(properties, **limited)

"""Reads what this machine has of a served model: its tokenizer, and what infilling has to know of it. No weights."""

from pathlib import Path
from typing import Any

import msgspec

from inference.engine.canvas.vocabulary import Vocabulary
from inference.models import checkpoint, checkpoint_files, downloads
from inference.models.checkpoint import HUB_ID, Checkpoint
from inference.models.family import CanvasTokens, ModelError, Properties
from inference.remote import address
from inference.remote.vllm.canvas_search import Model
from inference.remote.vllm.rules import TextRules
from inference.remote.vllm.server import Served

_LINE_STEPS, _QUICK_STEPS = 8, 4
"""Of a checkpoint that says nothing, as models/diffusion_gemma takes it for a released one."""


class _Config(msgspec.Struct):
    model_type: str = ""
    canvas_length: CanvasTokens | None = None


def load(served: Served, wanted: str | None, url: str) -> Model:
    """The tokens of a served model, and how it wants to be used.

    `wanted` is a folder or a downloaded hub id; None: what the server was started with, where that is here. Raises
    ModelError.
    """
    folder = _folder(served, wanted, url)
    config = _config(folder)
    properties = checkpoint.stated_properties(folder, str(folder)) or _assumed(config)
    properties = _within(properties, served, url)
    control = (properties.mask_token_id, properties.slack_token_id)
    tokenizer = Checkpoint(str(folder), folder, config, properties, 0).tokenizer()
    vocabulary = Vocabulary(tokenizer, [id_ for id_ in control if id_ is not None])
    vocabulary.prepare()
    return Model(vocabulary, properties, TextRules(vocabulary, properties))


def _folder(served: Served, wanted: str | None, url: str) -> Path:
    """Where the tokenizer is. What the server says is a hint alone: a folder that it names is one of its own machine.

    So that folder is opened here only where the server is here too; the name of another's may be anybody's folder.
    """
    if wanted:
        return checkpoint.folder_of(wanted)
    try:
        if HUB_ID.fullmatch(served.root):
            return downloads.require(served.root)
        if not (address.parse(url).is_here and Path(served.root).is_absolute()):
            raise ModelError(f"{url} does not name a checkpoint of this machine")
        return checkpoint.folder_of(served.root)
    except ModelError as error:
        raise ModelError(
            f"{error}. {url} serves {served.name}; its tokenizer has to be here as well: set server.tokenizer or "
            "--server-tokenizer to a folder with its tokenizer.json (and infill.json, where it has one)"
        ) from error


def _config(folder: Path) -> dict[str, Any]:
    """What config.json says; nothing where there is none, for a tokenizer is enough."""
    try:
        return checkpoint_files.read_json(folder / "config.json")
    except FileNotFoundError:
        return {}


def _assumed(config: dict[str, Any]) -> Properties:
    """What is assumed of a checkpoint without `infill.json`: a released one."""
    try:
        width = msgspec.convert(config, _Config).canvas_length or 256
    except msgspec.ValidationError:
        width = 256
    return Properties(canvas_tokens=width, prompt="chat", line_steps=_LINE_STEPS, quick_steps=_QUICK_STEPS)


def _within(properties: Properties, served: Served, url: str) -> Properties:
    """The same, with canvases and prefixes that the server takes. Raises ModelError where it takes next to nothing."""
    canvas = min(properties.canvas_tokens, served.canvas_tokens)
    context = served.context_tokens or properties.max_prefix_tokens + canvas
    least = 4
    if canvas < least or context <= canvas:
        raise ModelError(
            f"{url}: {served.name} is served with a canvas of {served.canvas_tokens} tokens and {context} in all, "
            "which leaves no room; raise canvas_length in --diffusion-config, or --max-model-len"
        )
    prefix = min(properties.max_prefix_tokens, context - canvas)
    limited = {
        "canvas_tokens": canvas,
        "max_prefix_tokens": prefix,
        "suffix_tokens": min(properties.suffix_tokens, canvas),
    }
    return msgspec.structs.replace(properties, **limited)

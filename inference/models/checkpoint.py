"""From a model's name to a folder that is safe to load, checked before a single weight is read.

Only safetensors are accepted and no code of a checkpoint is ever run: the network is always transformers' own class.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from inference.engine.errors import ModelError

EMBEDDED = "embedded"
"""The name of the small checkpoint that ships with the package."""

_EMBEDDED_FOLDER = Path(__file__).resolve().parent.parent / "embedded"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_WANTED_FILES = ("*.json", "*.safetensors")


class SamplerProperties(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a checkpoint wants to be sampled. The defaults are DiffusionGemma's published generation settings."""

    max_steps: int = 48
    entropy_bound: float = 0.1
    t_max: float = 0.8
    t_min: float = 0.4
    stability: int = 1
    confidence: float = 0.005
    accept_floor: bool = False
    """Accept at least n/N of the rows after n of N steps: a mask checkpoint then ends with no row left masked."""


class Properties(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`infill.json`: what infilling needs to know of a checkpoint and `config.json` does not say.

    `corruption` is "uniform" (noise is a random token) or "mask" (noise is `mask_token_id`). `slack_token_id` pads the
    tail of a hole that is wider than its text; None where the checkpoint has no such token. Tokens below
    `first_text_token_id` are never part of a fill. `prompt` is "plain" (the file alone) or "chat" (see prompt.py).
    """

    corruption: str = "uniform"
    mask_token_id: int | None = None
    slack_token_id: int | None = None
    first_text_token_id: int = 0
    max_prefix_tokens: int = 8192
    canvas_tokens: int = 256
    suffix_tokens: int = 256
    """How much of what follows the last hole stands on the canvas, where it fits. On a CPU every row costs time."""
    prompt: str = "plain"
    length_choices: int = 6
    """How many lengths are tried side by side, where one answer is wanted; the best few are finished (pruning.py)."""
    continuations: int = 0
    """How many times the encoder writes a line too, as further candidates (continuations.py). Each of their tokens
    takes a pass, so it is for a small checkpoint, whose training asked for the next token."""
    sampler: SamplerProperties = SamplerProperties()


@dataclass(frozen=True)
class Checkpoint:
    """A folder that passed the checks. `weight_bytes` is the size of its safetensors files."""

    name: str
    folder: Path
    config: dict[str, Any]
    properties: Properties
    weight_bytes: int


def find(model: str, *, allow_download: bool = False) -> Checkpoint:
    """The checkpoint called `model`: "embedded", a folder, or a hub id.

    Raises ModelError when it is not there, is no block-diffusion model, or has no safetensors.
    """
    folder = _folder(model, allow_download)
    config = _read_json(folder / "config.json", model)
    kind = config.get("model_type")
    if kind != "diffusion_gemma":
        raise ModelError(
            f"{model}: a '{kind}' model cannot fill holes; a block-diffusion checkpoint is needed "
            "(model_type 'diffusion_gemma' in its config.json)"
        )
    for needed in ("tokenizer.json",):
        if not (folder / needed).is_file():
            raise ModelError(f"{model}: {needed} is missing from {folder}; download the checkpoint again")
    return Checkpoint(model, folder, config, _properties(folder, config, model), _weight_bytes(folder, model))


def _folder(model: str, allow_download: bool) -> Path:
    if model == EMBEDDED:
        return _EMBEDDED_FOLDER
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if not _HUB_ID.fullmatch(model) or folder.exists():
        raise ModelError(f"{model}: no such model; give 'embedded', a checkpoint folder or a hub id like owner/name")
    return _from_hub(model, allow_download)


def _from_hub(model: str, allow_download: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, local_files_only=not allow_download, allow_patterns=list(_WANTED_FILES)))
    except LocalEntryNotFoundError as error:
        if not allow_download:
            raise ModelError(
                f"{model}: not on this machine; allow the download (--allow-download), or give a checkpoint folder"
            ) from error
        raise ModelError(f"{model}: the model hub cannot be reached; check the network") from error
    except (HfHubHTTPError, OSError) as error:
        raise ModelError(f"{model}: could not be downloaded: {error}") from error


def _properties(folder: Path, config: dict[str, Any], model: str) -> Properties:
    file = folder / "infill.json"
    if not file.is_file():
        return _released_properties(folder, config)
    try:
        properties = msgspec.json.decode(file.read_bytes(), type=Properties)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(f"{model}: {file} cannot be used: {error}") from error
    if properties.corruption not in ("mask", "uniform"):
        raise ModelError(f"{model}: {file}: corruption must be 'mask' or 'uniform', not '{properties.corruption}'")
    if properties.corruption == "mask" and properties.mask_token_id is None:
        raise ModelError(f"{model}: {file}: mask corruption needs mask_token_id")
    return properties


def _released_properties(folder: Path, config: dict[str, Any]) -> Properties:
    """A checkpoint without `infill.json` is taken for a released DiffusionGemma: uniform noise, no slack, chat."""
    file = folder / "generation_config.json"
    stated = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    fallback = SamplerProperties()
    sampler = SamplerProperties(
        max_steps=stated.get("max_denoising_steps") or fallback.max_steps,
        entropy_bound=(stated.get("sampler_config") or {}).get("entropy_bound") or fallback.entropy_bound,
        t_max=stated.get("t_max") or fallback.t_max,
        t_min=stated.get("t_min") or fallback.t_min,
        stability=fallback.stability if stated.get("stability_threshold") is None else stated["stability_threshold"],
        confidence=stated.get("confidence_threshold") or fallback.confidence,
    )
    return Properties(canvas_tokens=config.get("canvas_length") or 256, prompt="chat", sampler=sampler)


def _weight_bytes(folder: Path, model: str) -> int:
    files = list(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{model}: no *.safetensors in {folder}; other weight formats can run code and are refused")
    return sum(file.stat().st_size for file in files)


def _read_json(file: Path, model: str) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{model}: {file} is missing; this is not a checkpoint folder") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{model}: {file} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{model}: {file} is not a JSON object")
    return value

"""Low-rank adapters that tune a large DiffusionGemma for infilling: holes with slack, and a suffix on the canvas.

Encoder and decoder share their weights, and training runs both through the decoder's layers (trunk.py), so only those
get adapters. The tuned checkpoint keeps the conventions of its base, including prompt and sampling settings.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import DiffusionGemmaForBlockDiffusion

from inference.engine.canvas import prompt
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import InfillRequest
from inference.models import registry
from inference.models.family import ModelError
from inference.models.properties import NoiseKind, Properties
from inference.training import composer, tokenizer
from inference.training.batches import Framing, plain
from inference.training.config import ConfigError, DataConfig, LoraConfig
from inference.training.holes import TrainingDocument
from inference.training.model import TrainableModel, write_properties
from inference.training.tokenizer import Tokens

_TARGETS = r"model\.decoder\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
"""Attention and the dense part of the feed-forward layers. Experts and router do not change."""


def load(config: LoraConfig, data: DataConfig, device: torch.device) -> TrainableModel:
    """Adapters over a checkpoint, named as for `--model`; nothing is downloaded. Raises ConfigError."""
    try:
        found = registry.find(config.base)
    except ModelError as error:
        raise ConfigError(f"lora.base: {error}") from error
    folder, stated = found.folder, found.properties
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    base: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=dtype)
    base.to(device)
    read = tokenizer.load(folder / "tokenizer.json")
    tokens = tokens_of(read, config.slack_token, stated)
    adapted = adapt(base, config)
    framing = chat_framing(folder / "tokenizer.json") if stated.prompt == "chat" else partial(plain, tokens.bos)
    tuned = msgspec.structs.replace(
        stated, slack_token_id=tokens.slack, canvas_tokens=data.canvas_tokens, slots=composer.SLOTS
    )
    return TrainableModel(base, read, tokens, framing, _writer(adapted, folder, tuned))


def chat_framing(tokenizer_file: Path) -> Framing:
    """The engine's own prompt, in which the user asks for a file, in half of the streams by its name."""
    vocabulary, properties = Vocabulary(Tokenizer.from_file(str(tokenizer_file))), Properties(prompt="chat")
    return partial(_chat, vocabulary, properties)


def _chat(
    vocabulary: Vocabulary, properties: Properties, document: TrainingDocument, _start: int, rng: np.random.Generator
) -> tuple[int, ...]:
    path = document.path if rng.random() < 0.5 else ""
    return prompt.frame(vocabulary, properties, InfillRequest("", (), path=path)).before


def adapt(base: Any, config: LoraConfig) -> Any:
    """Adds adapters to a model; only they train, and they start as no change. Returns the tuner."""
    try:
        import peft
    except ImportError as error:
        raise ConfigError("tuning with adapters needs peft: run pip install peft") from error
    wanted = peft.LoraConfig(r=config.rank, lora_alpha=config.alpha, target_modules=_TARGETS)
    tuner = peft.tuners.lora.LoraModel(base, wanted, "default")
    for one in base.parameters():
        if one.requires_grad:
            one.data = one.data.float()  # small steps vanish in bfloat16
    return tuner


def tokens_of(read: Tokenizer, slack_token: str, stated: Properties) -> Tokens:
    """The ids of a checkpoint; a token that no text uses becomes slack. A file ends as in the engine's prompt."""
    pad, eos, bos, slack = (_id_of(read, name) for name in ("<pad>", "<eos>", "<bos>", slack_token))
    mask = stated.mask_token_id if stated.corruption == NoiseKind.MASK else None
    ending = prompt.frame(Vocabulary(read, [slack]), stated, InfillRequest("", ())).after
    return Tokens(pad, eos, bos, slack, mask, stated.first_text_token_id, read.get_vocab_size(), ending)


def _id_of(read: Tokenizer, name: str) -> int:
    found = read.token_to_id(name)
    if found is None:
        raise ConfigError(f"lora: the checkpoint's vocabulary has no token '{name}'")
    return found


def _writer(tuner: Any, base: Path, tuned: Properties) -> Callable[[Path], None]:
    """Writes the merged model. Undoes the merge afterwards, so that training can continue."""

    def write(folder: Path) -> None:
        tuner.merge_adapter()
        try:
            weights = {
                name.replace(".base_layer.", "."): one
                for name, one in tuner.model.state_dict().items()
                if "lora_" not in name
            }
            tuner.model.save_pretrained(folder, state_dict=weights)
        finally:
            tuner.unmerge_adapter()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            if (base / file).is_file():
                (folder / file).write_bytes((base / file).read_bytes())
        write_properties(folder, tuned)

    return write

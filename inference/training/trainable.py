"""A model in training, on its device, with everything that training needs to know about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from inference.training import gemma_tokenizer, model, model_folder, tokenizer
from inference.training.config import Conventions, DataConfig, ModelConfig
from inference.training.prompt_framing import ChatFraming, Framing, PlainFraming
from inference.training.tokenizer import Tokens


@dataclass(frozen=True)
class TrainableModel:
    """A model on its device, its tokenizer, and `write`, which saves its current state as a `--model` folder."""

    model: Any
    tokenizer: Tokenizer
    tokens: Tokens
    framing: Framing
    write: Callable[[Path], None]


def device() -> torch.device:
    """CUDA if available, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def build(shape: ModelConfig, data: DataConfig, seed: int, file: Path, texts: Sequence[str]) -> TrainableModel:
    """A model of this shape with new weights. Trains a missing tokenizer on `texts`."""
    build_kind = _released if shape.conventions is Conventions.RELEASED else _own
    return build_kind(shape, data, seed, _tokenizer(shape, file, texts))


def _own(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> TrainableModel:
    built, trained = model.build(shape, data.canvas_tokens, seed).to(device()), tokenizer.load(file)
    tokens = tokenizer.own_tokens(shape.vocabulary_size)
    write = partial(model_folder.write_model, model=built, tokenizer=trained, tokens=tokens, data=data)
    return TrainableModel(built, trained, tokens, PlainFraming(tokens), write)


def _released(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> TrainableModel:
    """Like the released checkpoint, with only its kind of files."""
    built, trained = model.build(shape, data.canvas_tokens, seed).to(device()), tokenizer.load(file)
    tokens = gemma_tokenizer.tokens(shape.vocabulary_size)
    write = partial(model_folder.write_released, model=built, tokenizer=trained)
    return TrainableModel(built, trained, tokens, ChatFraming(file, data.prefix_tokens), write)


def _tokenizer(shape: ModelConfig, file: Path, texts: Sequence[str]) -> Path:
    """The file, written if it does not exist yet."""
    if not file.is_file():
        kind = gemma_tokenizer if shape.conventions is Conventions.RELEASED else tokenizer
        kind.train(texts, shape.vocabulary_size).save(str(file))
    return file

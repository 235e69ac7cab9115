"""What is trained: a fresh small model with a tokenizer of its own, or adapters of a big one that has all that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from inference.training import checkpoint, model, tokenizer
from inference.training.config import DataConfig, ModelConfig, RunConfig
from inference.training.tokenizer import Tokens


@dataclass(frozen=True)
class Subject:
    """A model on its device, its tokenizer, and `write`, which makes a `--model` folder of it as it then is."""

    model: Any
    tokenizer: Tokenizer
    tokens: Tokens
    write: Callable[[Path], None]


def of(config: RunConfig, tokenizer_file: Path, texts: Sequence[str]) -> Subject:
    """What a configuration asks for. A tokenizer that has to be trained is trained on `texts` and kept in the file."""
    if config.lora is not None:
        from inference.training import lora  # needs peft, which only this needs

        return lora.subject(config.lora, config.data, device())
    assert config.model is not None, "the configuration was checked when it was read"
    return _fresh(config.model, config.data, config.training.seed, _tokenizer(config.model, tokenizer_file, texts))


def device() -> torch.device:
    """CUDA where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _fresh(shape: ModelConfig, data: DataConfig, seed: int, trained: Tokenizer) -> Subject:
    built = model.build(shape, data.canvas_tokens, seed).to(device())
    tokens = tokenizer.own_tokens(shape.vocabulary_size)
    write = partial(checkpoint.write_model, model=built, tokenizer=trained, tokens=tokens, data=data)
    return Subject(built, trained, tokens, write)


def _tokenizer(shape: ModelConfig, file: Path, texts: Sequence[str]) -> Tokenizer:
    if not file.is_file():
        tokenizer.train(texts, shape.vocabulary_size).save(str(file))
    return tokenizer.load(file)

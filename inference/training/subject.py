"""What is trained: a fresh small model with a tokenizer of its own, or adapters of a big one that has all that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from inference.training import checkpoint, gemma_tokenizer, model, tokenizer
from inference.training.config import Conventions, DataConfig, ModelConfig, RunConfig
from inference.training.framing import Conversation, Framing, Plain
from inference.training.tokenizer import Tokens


@dataclass(frozen=True)
class Subject:
    """A model on its device, its tokenizer, and `write`, which makes a `--model` folder of it as it then is."""

    model: Any
    tokenizer: Tokenizer
    tokens: Tokens
    framing: Framing
    write: Callable[[Path], None]


def of(config: RunConfig, tokenizer_file: Path, texts: Sequence[str]) -> Subject:
    """What a configuration asks for. A tokenizer that has to be trained is trained on `texts` and kept in the file."""
    if config.lora is not None:
        from inference.training import lora  # needs peft, which only this needs

        return lora.subject(config.lora, config.data, device())
    assert config.model is not None, "the configuration was checked when it was read"
    make = _released if config.model.conventions is Conventions.RELEASED else _own
    return make(config.model, config.data, config.training.seed, _tokenizer(config.model, tokenizer_file, texts))


def device() -> torch.device:
    """CUDA where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _own(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> Subject:
    built, trained = model.build(shape, data.canvas_tokens, seed).to(device()), tokenizer.load(file)
    tokens = tokenizer.own_tokens(shape.vocabulary_size)
    write = partial(checkpoint.write_model, model=built, tokenizer=trained, tokens=tokens, data=data)
    return Subject(built, trained, tokens, Plain(tokens), write)


def _released(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> Subject:
    """As the released checkpoint is, and with its kind of files only."""
    built, trained = model.build(shape, data.canvas_tokens, seed).to(device()), tokenizer.load(file)
    tokens = gemma_tokenizer.tokens(shape.vocabulary_size)
    write = partial(checkpoint.write_released, model=built, tokenizer=trained)
    return Subject(built, trained, tokens, Conversation(file, data.prefix_tokens), write)


def _tokenizer(shape: ModelConfig, file: Path, texts: Sequence[str]) -> Path:
    """The file, which is written where it is not there yet."""
    if not file.is_file():
        kind = gemma_tokenizer if shape.conventions is Conventions.RELEASED else tokenizer
        kind.train(texts, shape.vocabulary_size).save(str(file))
    return file

"""Builds a fresh small model to be trained, with a tokenizer of its own."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from inference.training import fim_tokenizer, gemma_tokenizer, model, model_folder, qwen2, tokenizer
from inference.training.config import Conventions, DataConfig, ModelConfig
from inference.training.prompt_framing import ChatFraming, NoFraming, PlainFraming
from inference.training.trainable import TrainableModel, device


def build(shape: ModelConfig, data: DataConfig, seed: int, file: Path, texts: Sequence[str]) -> TrainableModel:
    """A model of this shape with new weights. Where the tokenizer's file is missing, it is trained on `texts`."""
    kinds = {
        Conventions.OWN: _own,
        Conventions.RELEASED: _released,
        Conventions.MASKED: _masked,
        Conventions.FIM: _fim,
    }
    return kinds[shape.conventions](shape, data, seed, _tokenizer(shape, file, texts))


def _own(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> TrainableModel:
    built, trained = model.build(shape, data.canvas_tokens, seed).to(device()), tokenizer.load(file)
    tokens = tokenizer.own_tokens(shape.vocabulary_size)
    write = partial(model_folder.write_model, model=built, tokenizer=trained, tokens=tokens, data=data)
    return TrainableModel(built, trained, tokens, PlainFraming(tokens), write)


def _released(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> TrainableModel:
    """As the released checkpoint is, and with its kind of files only."""
    built, trained = model.build(shape, data.canvas_tokens, seed).to(device()), tokenizer.load(file)
    tokens = gemma_tokenizer.tokens(shape.vocabulary_size)
    write = partial(model_folder.write_released, model=built, tokenizer=trained)
    return TrainableModel(built, trained, tokens, ChatFraming(file, data.prefix_tokens), write)


def _masked(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> TrainableModel:
    """A Qwen2, with a mask token in its tokenizer."""
    tokens = tokenizer.masked_tokens(shape.vocabulary_size)
    built, trained = qwen2.build(shape, seed, tokens).to(device()), tokenizer.load(file)
    write = partial(model_folder.write_masked, model=built, tokenizer=trained, tokens=tokens, data=data)
    return TrainableModel(built, trained, tokens, NoFraming(), write)


def _fim(shape: ModelConfig, data: DataConfig, seed: int, file: Path) -> TrainableModel:
    """A causal Qwen2 with Qwen2.5-Coder's tokens, and with the files of such a checkpoint only."""
    tokens = fim_tokenizer.tokens(shape.vocabulary_size)
    built, trained = qwen2.build(shape, seed, tokens).to(device()), tokenizer.load(file)
    return TrainableModel(
        built, trained, tokens, NoFraming(), partial(model_folder.write_fim, model=built, tokenizer=trained)
    )


def _tokenizer(shape: ModelConfig, file: Path, texts: Sequence[str]) -> Path:
    """The file, which is written where it is not there yet."""
    if not file.is_file():
        kinds = {Conventions.RELEASED: gemma_tokenizer, Conventions.FIM: fim_tokenizer}
        kinds.get(shape.conventions, tokenizer).train(texts, shape.vocabulary_size).save(str(file))
    return file

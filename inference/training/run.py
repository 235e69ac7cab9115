"""One command from an empty folder to a usable `--model` folder; running it again resumes.

    python -m inference.training --config embedded-cpu --out FOLDER [--minutes N] [--decay-minutes N] [--from FOLDER]

FOLDER gets `corpus.msgpack`, `tokenizer.json`, `log.jsonl`, `checkpoints/step-*` (each a `--model` folder) and, after a
decay, `final`. Without `--minutes` it trains until it is stopped (Ctrl-C or SIGTERM), which saves first.
"""

import argparse
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from safetensors.torch import load_file

from inference.training import config as configs
from inference.training import corpus, lora, model, tokenizer
from inference.training.batches import Batches, BatchShape, plain
from inference.training.config import ConfigError, RunConfig
from inference.training.corpus import SourceFile
from inference.training.corruption import Feed
from inference.training.holes import TrainingDocument
from inference.training.model import TrainableModel, device
from inference.training.objective import InfillingObjective
from inference.training.trainer import Material, Trainer, TrainingPhase

_CONFIGS = Path(__file__).parent / "configs"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns an exit status."""
    given = _parser().parse_args(arguments)
    try:
        config = configs.read(_config_file(given.config))
        run(config, given.out, given.minutes, given.decay_minutes, given.start)
    except ConfigError as error:
        print(f"error: {error}")
        return 2
    return 0


def run(
    config: RunConfig, out: Path, minutes: float | None, decay_minutes: float | None, start: Path | None = None
) -> None:
    """Trains for `minutes` (None: until stopped), then decays the learning rate to zero over `decay_minutes`.

    `start` is a checkpoint folder of the same conventions, whose weights and tokenizer a new run starts from.
    """
    with _stopping() as stopped:
        trainer = prepare(config, out, start)
        if minutes != 0:
            trainer.train(TrainingPhase(minutes), lambda: bool(stopped))
        if decay_minutes and not stopped:
            trainer.train(TrainingPhase(decay_minutes, decays=True), lambda: bool(stopped))
            trainer.export(out / "final")


def prepare(config: RunConfig, out: Path, start: Path | None = None) -> Trainer:
    """A trainer over a folder's run, at its newest checkpoint. Raises ConfigError for an unsuitable `start`."""
    out.mkdir(parents=True, exist_ok=True)
    if start is not None and not (out / "tokenizer.json").exists() and (start / "infill.json").is_file():
        shutil.copyfile(start / "tokenizer.json", out / "tokenizer.json")
    files = corpus.load(out / "corpus.msgpack", config.data.source_mb, _sources(config.data.sources))
    chosen = _model_of(config, out / "tokenizer.json", files)
    trainer = Trainer(chosen.model, config, material(config, files, chosen), out)
    count = sum(one.numel() for one in model.trained(trainer.model).values())
    text = sum(len(file.text) for file in files)
    resumed = trainer.resume()
    if start is not None and not resumed:
        _begin_with(trainer, start)
    origin = f"resumed at step {trainer.state.step}" if resumed else f"from {start}" if start else "a new run"
    print(f"{origin}: {count / 1e6:.1f}M parameters, {len(files)} files, {text / 1e6:.1f}M characters", flush=True)
    return trainer


def _model_of(config: RunConfig, tokenizer_file: Path, files: Sequence[SourceFile]) -> TrainableModel:
    """A fresh small model, or adapters over a large one. Trains a missing tokenizer on the training files."""
    if config.lora is not None:
        return lora.load(config.lora, config.data, device())
    assert config.model is not None, "the configuration was checked when it was read"
    if not tokenizer_file.is_file():
        texts = [file.text for file in files if not file.held_out]
        tokenizer.train(texts, config.model.vocabulary_size).save(str(tokenizer_file))
    built = model.build(config.model, config.data.canvas_tokens, config.training.seed).to(device())
    read, tokens = tokenizer.load(tokenizer_file), tokenizer.own_tokens(config.model.vocabulary_size)
    write = partial(model.write_model, model=built, tokenizer=read, tokens=tokens, data=config.data)
    return TrainableModel(built, read, tokens, partial(plain, tokens.bos), write)


def _begin_with(trainer: Trainer, start: Path) -> None:
    """Copies the weights. The tokenizer must be the same, because an embedding belongs to its token."""
    if (start / "tokenizer.json").read_bytes() != (trainer.folder / "tokenizer.json").read_bytes():
        raise ConfigError(f"--from {start}: its tokenizer is not that of the run; start from a folder of the same kind")
    try:
        trainer.begin_with(load_file(start / "model.safetensors"))
    except (KeyError, RuntimeError, ValueError, OSError) as error:
        raise ConfigError(f"--from {start}: no checkpoint of the shape that is configured: {error}") from error


def _sources(names: Sequence[str]) -> list[corpus.SourcePackage]:
    known = {source.name: source for source in corpus.SOURCES}
    for name in names:
        if name not in known:
            raise ConfigError(f"data.sources: '{name}' is not one of {', '.join(known)}")
    return [known[name] for name in names] or list(corpus.SOURCES)


def _config_file(name: str) -> Path:
    """A file, or the name of one in the package."""
    shipped = _CONFIGS / f"{name}.toml"
    return shipped if shipped.is_file() else Path(name)


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """A list that becomes non-empty once the process is asked to stop."""
    asked: list[int] = []
    wanted = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda received, _: asked.append(received)) for number in wanted}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="infill-ls train", description="Train an infilling checkpoint.")
    parser.add_argument(
        "--config", default="embedded-cpu", help="a TOML file, or the name of a built-in one, like embedded-cpu"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--from", dest="start", type=Path, help="a checkpoint folder that a new run starts from")
    parser.add_argument("--minutes", type=float, help="how long to train; by default until stopped; 0: not at all")
    parser.add_argument("--decay-minutes", type=float, help="how long to decay the learning rate afterwards")
    return parser


_HELD_OUT_SEED = 0
"""Makes held-out losses comparable between runs with different seeds."""


def material(config: RunConfig, files: Sequence[SourceFile], chosen: TrainableModel) -> Material:
    """Batches of the files, and the losses of the chosen model."""
    data, training = config.data, config.training
    shape = BatchShape(training.streams, data.prefix_tokens, data.canvases, data.canvas_tokens)
    rows = int(training.loss_rows * data.canvases * data.canvas_tokens)

    def feed(held_out: bool, seed: int) -> Feed:
        kept = [TrainingDocument.of(file.text, file.name) for file in files if file.held_out == held_out]
        batches = Batches(kept, chosen.tokenizer, chosen.tokens, shape, seed, chosen.framing)
        return Feed(batches, chosen.tokens, rows, seed)

    objective = InfillingObjective(
        chosen.model, training.causal_weight, autocast=training.autocast, compiled=training.compile
    )
    return Material(chosen.write, objective, feed(False, training.seed), feed(True, _HELD_OUT_SEED))

"""The loop: draw, corrupt, step, report, save. It stops on request, and resumes where it stopped.

After its warm-up the learning rate stays constant, so a run can be extended at any time. The shipped weights are the
running average, or, best, the end of a decay. A checkpoint is a model folder in bfloat16 plus `resume/` in float32.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from inference.training.config import RunConfig
from inference.training.corruption import Feed
from inference.training.model import trained
from inference.training.objective import InfillingObjective, Losses, mean
from inference.training.optimizer import Average, Optimizer


class WorkClock:
    """Adds up laps, none for more than ten times the mean so far, without the first, whose step compiles."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._last, self._laps = now, now(), 0
        self.seconds = 0.0

    def lap(self) -> None:
        """Ends a lap and begins the next."""
        now = self._now()
        elapsed, self._last = now - self._last, now
        if self._laps > 1:
            elapsed = min(elapsed, 10 * self.seconds / (self._laps - 1))
        if self._laps > 0:
            self.seconds += elapsed
        self._laps += 1


class RunState(msgspec.Struct, frozen=True):
    """A run's progress, over all resumptions. `seconds` of training, `rows` through the network."""

    step: int = 0
    rows: int = 0
    seconds: float = 0.0


def atomically(folder: Path, write: Callable[[Path], None]) -> None:
    """Lets `write` fill a folder that then takes its name in one step, replacing an older one."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    write(temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def write_state(folder: Path, state: RunState, weights: Mapping[str, Tensor], averages: Mapping[str, Tensor]) -> None:
    """Adds the data for resuming to a folder."""
    inside = folder / "resume"
    inside.mkdir()
    save_file({name: one.detach().cpu().contiguous() for name, one in weights.items()}, inside / "weights.safetensors")
    save_file({name: one.cpu().contiguous() for name, one in averages.items()}, inside / "averages.safetensors")
    (inside / "state.json").write_bytes(msgspec.json.encode(state))


def read_state(folder: Path) -> tuple[RunState, dict[str, Tensor], dict[str, Tensor]]:
    """Reads the data of `write_state`: state, weights, averages."""
    inside = folder / "resume"
    state = msgspec.json.decode((inside / "state.json").read_bytes(), type=RunState)
    return state, load_file(inside / "weights.safetensors"), load_file(inside / "averages.safetensors")


def latest(checkpoints: Path) -> Path | None:
    """The newest checkpoint of a run, None before its first."""
    return max(checkpoints.glob("step-*"), default=None)


class TrainingReport:
    """Means over the steps since the last line; speed by the clock of this run."""

    def __init__(self, file: Path, every_steps: int) -> None:
        self._file, self._every = file, every_steps
        self._losses: list[Losses] = []
        self._rows, self._since = 0, time.monotonic()

    def training(self, phase: str, state: RunState, losses: Losses) -> None:
        """Adds one step; a line is due every few steps."""
        if not self._losses and not self._rows:
            self._rows, self._since = state.rows, time.monotonic()
        self._losses.append(losses)
        if state.step % self._every == 0:
            elapsed = max(1e-9, time.monotonic() - self._since)
            self.tell(phase, state, mean(self._losses), tokens_per_second=round((state.rows - self._rows) / elapsed))
            self._losses, self._rows, self._since = [], state.rows, time.monotonic()

    def tell(self, kind: str, state: RunState, losses: Losses, **more: float) -> None:
        """Adds a line to the log, and prints it."""
        numbers = {name: round(getattr(losses, name), 4) for name in ("hole", "text", "causal")}
        numbers = {name: number for name, number in numbers.items() if number == number}  # not the NaN ones
        progress = {"kind": kind, "step": state.step, "tokens": state.rows, "seconds": round(state.seconds)}
        entry = progress | numbers | more
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        print("  ".join(f"{name} {value}" for name, value in entry.items()), flush=True)


@dataclass(frozen=True)
class Material:
    """A run's data and objective. The `writer` saves the model's current state as a model folder."""

    writer: Callable[[Path], None]
    objective: InfillingObjective
    training: Feed
    held_out: Feed


@dataclass(frozen=True)
class TrainingPhase:
    """A stretch of a run: `minutes` or `steps` long, whichever ends first; without either until it is stopped."""

    minutes: float | None = None
    steps: int | None = None
    decays: bool = False

    def progress(self, minutes: float, steps: int) -> float:
        """The completed share of the phase, from 0 to 1."""
        pairs = ((minutes, self.minutes), (float(steps), self.steps))
        shares = [done / whole if whole else 1.0 for done, whole in pairs if whole is not None]
        return min(1.0, max(shares, default=0.0))


class Trainer:
    """A model in training. `folder` holds its checkpoints and its log."""

    def __init__(self, model: Any, config: RunConfig, material: Material, folder: Path) -> None:
        training = config.training
        self.model, self._config, self._material, self.folder = model, config, material, folder
        self._parameters = trained(model)
        self._optimizer = Optimizer(self._parameters, training.matrix_lr, training.other_lr)
        self._average = Average(self._parameters, training.average_steps)
        self._report = TrainingReport(folder / "log.jsonl", config.report.log_steps)
        self.state = RunState()
        self._resumed_step = 0

    def resume(self) -> bool:
        """Continues from the newest checkpoint, if there is one."""
        newest = latest(self.folder / "checkpoints")
        if newest is None:
            return False
        self.state, weights, averages = read_state(newest)
        with torch.no_grad():
            for name, saved in weights.items():
                self._parameters[name].copy_(saved)
        self._average.restore(averages, self.state.step)
        self._resumed_step = self.state.step
        return True

    def begin_with(self, weights: Mapping[str, torch.Tensor]) -> None:
        """A new run that starts from the weights of a checkpoint of the same shape, by their names in its file."""
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                # Tied weights are found at the encoder by name, and saved as the decoder's.
                parameter.copy_(weights[name.replace("model.encoder.language_model.", "model.decoder.")])
        self._average = Average(self._parameters, self._config.training.average_steps)

    def train(self, phase: TrainingPhase, stopped: Callable[[], bool]) -> None:
        """Trains to the end of a phase, or until `stopped`. Only a phase that does not decay leaves checkpoints."""
        first, clock, saved = self.state, WorkClock(), time.monotonic()
        feed = self._material.training.since(first.step, self._config.training.workers)
        while not stopped():
            progress = phase.progress(clock.seconds / 60, self.state.step - first.step)
            if progress >= 1:
                break
            losses = self._step(next(feed), 1 - progress if phase.decays else 1.0)
            clock.lap()
            self.state = msgspec.structs.replace(self.state, seconds=first.seconds + clock.seconds)
            self._report.training("decay" if phase.decays else "train", self.state, losses)
            if self.state.step % self._config.report.evaluate_steps == 0:
                self._report_held_out(phase)
            if not phase.decays and time.monotonic() - saved >= 60 * self._config.report.save_minutes:
                self.save()
                saved = time.monotonic()
        if phase.decays:  # cannot be extended
            self._report_held_out(phase)
        else:
            self.save()

    def _report_held_out(self, phase: TrainingPhase) -> None:
        losses = self.evaluate(averaged=not phase.decays)
        self._report.tell("held-out decay" if phase.decays else "held-out", self.state, losses)

    def save(self) -> None:
        """A checkpoint of this step: usable immediately (averaged weights), plus the data for resuming."""
        checkpoints = self.folder / "checkpoints"

        def write(folder: Path) -> None:
            with self._average.in_place():
                self._material.writer(folder)
            write_state(folder, self.state, self._parameters, self._average.weights)

        atomically(checkpoints / f"step-{self.state.step:07d}", write)
        for old in sorted(checkpoints.glob("step-*"))[: -self._config.report.keep_checkpoints]:
            shutil.rmtree(old, ignore_errors=True)

    def export(self, folder: Path) -> None:
        """The current weights, as a folder for `--model`."""
        atomically(folder, self._material.writer)

    def evaluate(self, *, averaged: bool) -> Losses:
        """Losses on the held-out files, always on the same batches; with gradients, or all would compile once more."""
        with self._average.in_place() if averaged else nullcontext():
            batches = map(self._material.held_out.__getitem__, range(self._config.report.evaluate_batches))
            objective = self._material.objective
            found = [objective.loss(objective.inputs(one), conditioned=False)[1] for one in batches]
        return mean(found)

    def _step(self, drawn: Any, share: float) -> Losses:
        step, training, objective = self.state.step, self._config.training, self._material.objective
        inputs = objective.inputs(drawn)
        chance = np.random.default_rng((training.seed, step, 2)).random()
        loss, losses = objective.loss(inputs, conditioned=bool(chance < training.self_conditioning))
        loss.backward()  # type: ignore[no-untyped-call]
        if self._optimizer.step(share * self._warm(step)):
            self._average.update()
        rows = self.state.rows + inputs.stream.numel() + inputs.canvas.numel()
        self.state = msgspec.structs.replace(self.state, step=step + 1, rows=rows)
        return losses

    def _warm(self, step: int) -> float:
        """The share of the learning rate: little at first, and for 20 steps after resuming, which forgets moments."""
        warmup = max(1, self._config.training.warmup_steps)
        return min(1.0, (step + 1) / warmup, (step + 1 - self._resumed_step) / min(warmup, 20))

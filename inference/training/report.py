"""What a run tells of itself: a line for people, and the same as JSON lines beside its checkpoints."""

import json
import time
from pathlib import Path

from inference.training.losses import Losses, mean
from inference.training.snapshots import RunState


class TrainingReport:
    """Means over the steps since the last line; speed by the clock of this run."""

    def __init__(self, file: Path, every_steps: int) -> None:
        self._file, self._every = file, every_steps
        self._losses: list[Losses] = []
        self._rows, self._since = 0, time.monotonic()

    def training(self, phase: str, state: RunState, losses: Losses) -> None:
        """Takes in one step; every so many steps a line is due."""
        if not self._losses:
            self._rows, self._since = (state.rows, time.monotonic()) if not self._rows else (self._rows, self._since)
        self._losses.append(losses)
        if state.step % self._every == 0:
            elapsed = max(1e-9, time.monotonic() - self._since)
            self._tell(phase, state, mean(self._losses), tokens_per_second=round((state.rows - self._rows) / elapsed))
            self._losses, self._rows, self._since = [], state.rows, time.monotonic()

    def held_out(self, phase: str, state: RunState, losses: Losses) -> None:
        """A line about files the model never sees."""
        self._tell("held-out" if phase == "train" else f"held-out {phase}", state, losses)

    def _tell(self, kind: str, state: RunState, losses: Losses, **more: float) -> None:
        numbers = {name: round(getattr(losses, name), 4) for name in ("hole", "text", "causal")}
        numbers = {name: number for name, number in numbers.items() if number == number}  # not those that are NaN
        entry = {
            "kind": kind,
            "step": state.step,
            "tokens": state.rows,
            "seconds": round(state.seconds),
            **numbers,
            **more,
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        print("  ".join(f"{name} {value}" for name, value in entry.items()), flush=True)

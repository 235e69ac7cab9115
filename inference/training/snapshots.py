"""A run's newest snapshots on disk, from which it resumes: each a model folder plus the run's state.

A folder appears whole or not at all. The model's weights are in bfloat16; the run's own, in `resume/`, in float32.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from safetensors.torch import load_file, save_file
from torch import Tensor

_LONGEST_LAP = 10.0
"""A lap counts for at most this many times the mean of those before it."""


class WorkClock:
    """Adds up laps, one for each step. The first does not count: its step compiles, which takes minutes."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._last, self._laps = now, now(), 0
        self.seconds = 0.0

    def lap(self) -> None:
        """Ends a lap and begins the next."""
        now = self._now()
        elapsed, self._last = now - self._last, now
        if self._laps > 1:
            elapsed = min(elapsed, _LONGEST_LAP * self.seconds / (self._laps - 1))
        if self._laps > 0:
            self.seconds += elapsed
        self._laps += 1


_FOLDER = "step-{:07d}"


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


def folder_of(checkpoints: Path, step: int) -> Path:
    """The checkpoint folder of a step."""
    return checkpoints / _FOLDER.format(step)


def latest(checkpoints: Path) -> Path | None:
    """The newest checkpoint of a run, None before its first."""
    return max(checkpoints.glob("step-*"), default=None)


def prune(checkpoints: Path, keep: int) -> None:
    """Removes all but the newest checkpoints."""
    for old in sorted(checkpoints.glob("step-*"))[:-keep]:
        shutil.rmtree(old, ignore_errors=True)

"""Reads and writes tasks in the HumanEval-Infilling format: one JSON object per line, plain or gzipped.

Knows texts, not models. Line breaks at either end of a solution are layout and are pinned: a hole of one line cannot
write them.
"""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

_LINE_BREAKS = "\r\n"


class TaskError(Exception):
    """A file of tasks is unreadable or incomplete. The message is fit for the user."""


class InfillingTask(msgspec.Struct, frozen=True):
    """A hole between `prompt` and `suffix`, filled by `canonical_solution`."""

    task_id: str
    prompt: str
    suffix: str
    canonical_solution: str

    @property
    def kind(self) -> str:
        """The part of the id before its first slash: `line`, `body`, `SingleLineInfilling`, …"""
        return self.task_id.partition("/")[0]

    @property
    def file(self) -> str:
        """Its source file; the task's own name if the id has no line number."""
        name = self.task_id.partition("/")[2]
        return name.rpartition(":")[0] or name

    @property
    def single_line(self) -> bool:
        """Whether the solution has no line break inside it."""
        return not set(_LINE_BREAKS) & set(self.parts.solution)

    @property
    def parts(self) -> "TaskParts":
        """The same task with the line breaks around the solution pinned."""
        full = self.canonical_solution
        solution = full.strip(_LINE_BREAKS)
        start = len(full) - len(full.lstrip(_LINE_BREAKS)) if solution else 0
        return TaskParts(self.prompt, full[:start], solution, full[start + len(solution) :], self.suffix)


@dataclass(frozen=True)
class TaskParts:
    """prompt + leading + solution + trailing + suffix is the whole text; only the solution is the hole."""

    prompt: str
    leading: str
    solution: str
    trailing: str
    suffix: str

    @property
    def before(self) -> str:
        """The text before the hole."""
        return self.prompt + self.leading

    @property
    def after(self) -> str:
        """The text after the hole."""
        return self.trailing + self.suffix

    def completion(self, fill: str) -> str:
        """The text between prompt and suffix, with `fill` as the solution."""
        return self.leading + fill + self.trailing


def read(file: Path, limit: int | None = None) -> list[InfillingTask]:
    """The first `limit` tasks of a file, or all. Raises TaskError if it is unreadable or empty."""
    try:
        data = file.read_bytes()
        lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).split(b"\n")
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise TaskError(f"{file} cannot be read: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()][:limit]
    tasks = [_task(file, number, line) for number, line in numbered]
    if not tasks:
        raise TaskError(f"{file} has no task in it")
    return tasks


def write(file: Path, tasks: Iterable[InfillingTask]) -> None:
    """Writes tasks, gzipped if the name ends in `.gz`. The same tasks give the same bytes."""
    data = b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
    file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)


def _task(file: Path, number: int, line: bytes) -> InfillingTask:
    try:
        return msgspec.json.decode(line, type=InfillingTask)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"{file}, line {number}: not a task: {error}") from error

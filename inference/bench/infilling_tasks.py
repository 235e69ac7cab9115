"""Tasks in the HumanEval-Infilling format: one JSON object a line, plain or gzipped.

It knows texts, not models. White space at the ends of lines that stand outside a solution is layout: line breaks before
and after it are pinned, because a hole of one line cannot write them.
"""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

_LINE_BREAKS = "\r\n"


class TaskError(Exception):
    """A file of tasks cannot be read or lacks what is asked of it. The message is fit to be shown to a user."""


class InfillingTask(msgspec.Struct, frozen=True):
    """A hole between `prompt` and `suffix` that `canonical_solution` fills. `test` defines `check(entry_point)`."""

    task_id: str
    prompt: str
    suffix: str
    canonical_solution: str
    test: str = ""
    entry_point: str = ""

    @property
    def kind(self) -> str:
        """What stands before the first slash of the id: `line`, `body`, `SingleLineInfilling`, …"""
        return self.task_id.partition("/")[0]

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
        """What stands in front of the hole."""
        return self.prompt + self.leading

    @property
    def after(self) -> str:
        """What stands behind the hole."""
        return self.trailing + self.suffix

    def completion(self, fill: str) -> str:
        """A fill as what stands between prompt and suffix."""
        return self.leading + fill + self.trailing


def read(file: Path, limit: int | None = None) -> list[InfillingTask]:
    """The first `limit` tasks of a file. Raises TaskError where it cannot be read or has none."""
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
    """Writes tasks; gzipped where the name ends in `.gz`, the same bytes for the same tasks."""
    data = b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
    file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)


def _task(file: Path, number: int, line: bytes) -> InfillingTask:
    try:
        return msgspec.json.decode(line, type=InfillingTask)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"{file}, line {number}: not a task: {error}") from error

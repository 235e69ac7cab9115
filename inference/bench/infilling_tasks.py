"""Reads and scores tasks in the HumanEval-Infilling format: one JSON object per line, plain or gzipped.

Knows texts, not models. Line breaks at either end of a solution are layout and are pinned: a hole of one line cannot
write them. White space at both ends of a fill does not count.
"""

import gzip
import random
import statistics
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inference.bench import BenchError
from inference.ending import FillEnding, first_unlikely_offset
from inference.messages import Snippet

_LINE_BREAKS = "\r\n"
_Task = TypeVar("_Task", bound=msgspec.Struct)


class InfillingTask(msgspec.Struct, frozen=True):
    """A hole between `prompt` and `suffix`, filled by `canonical_solution`.

    `pieces` are parts of other files, the most similar to the hole's surroundings first. A task with pieces belongs to
    one `half`.
    """

    task_id: str
    prompt: str
    suffix: str
    canonical_solution: str
    half: str = ""
    pieces: tuple[Snippet, ...] = ()

    @property
    def kind(self) -> str:
        """The part of the task id before the first slash: `line`, `body`, `SingleLineInfilling`, …"""
        return self.task_id.partition("/")[0]

    @property
    def single_line(self) -> bool:
        return not set(_LINE_BREAKS) & set(self.solution)

    @property
    def solution(self) -> str:
        return self.canonical_solution.strip(_LINE_BREAKS)

    @property
    def prefix(self) -> str:
        return self.prompt + self.canonical_solution[: self._start]

    @property
    def suffix_text(self) -> str:
        return self.canonical_solution[self._start + len(self.solution) :] + self.suffix

    @property
    def _start(self) -> int:
        return self.canonical_solution.index(self.solution)

    def is_in_half(self, half: str) -> bool:
        """Whether the task belongs to the half `tuning` or `report`: if the data does not say, by its file."""
        file = self.task_id.rpartition(":")[0].encode()
        return half == (self.half or ("tuning", "report")[zlib.crc32(file) % 2])

    def is_correct_start(self, text: str) -> bool:
        """Whether the solution and the text after it start with the whole words of `text`, which is not blank."""
        start = text.strip()
        code = (self.solution + self.suffix_text).lstrip()
        return code.startswith(start) and not (start[-1].isidentifier() and code[len(start) :][:1].isidentifier())

    def llama_infill_body(self, max_new_tokens: int, typed: int = 0) -> dict[str, Any]:
        """The request body for llama.cpp's `/infill`, after `typed` characters of the solution."""
        return {
            "input_prefix": self.prefix,
            "input_suffix": self.suffix_text,
            "prompt": self.solution[:typed],
            "n_predict": max_new_tokens,
            "temperature": 0,
            "stop": ["\n"] if self.single_line else [],
        }


def read_tasks(file: Path, limit: int | None = None) -> list[InfillingTask]:
    """The first `limit` tasks of a file, or all. Raises BenchError if it is unreadable or empty."""
    return read_tasks_as(InfillingTask, file, limit)


def read_tasks_as(kind: type[_Task], file: Path, limit: int | None = None) -> list[_Task]:
    """The first `limit` tasks of a `kind`, or all. Raises BenchError if the file is unreadable or empty."""
    tasks: list[_Task] = []
    try:
        data = file.read_bytes()
        lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).split(b"\n")
    except (OSError, EOFError) as error:
        raise BenchError(f"{file} cannot be read: {error}") from error
    for line_number, line in enumerate(lines, 1):
        if line.strip() and len(tasks) != limit:
            try:
                tasks.append(msgspec.json.decode(line, type=kind))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise BenchError(f"{file}, line {line_number}: not a task: {error}") from error
    if not tasks:
        raise BenchError(f"{file} has no task in it")
    return tasks


def sample_tasks(tasks: Sequence[InfillingTask], count: int | None, seed: int) -> list[InfillingTask]:
    """A random sample of `count` tasks, in order, which the seed determines. None: all tasks."""
    count = min(count or len(tasks), len(tasks))
    chosen = random.Random(seed).sample(range(len(tasks)), count)  # noqa: S311 - a sample, not a secret
    return [tasks[index] for index in sorted(chosen)]


class TaskResult(msgspec.Struct, frozen=True):
    """The fill of one task and its scores.

    `steps` counts the denoising steps of the fill, `passes` all of the decoder's. `tokens` counts the hole's rows, and
    `prompt_tokens` what the model read before it wrote. `pieces` are the fill's tokens, `probs` their probabilities.
    """

    task_id: str
    text: str
    exact: bool
    edit_similarity: float
    ms: float
    steps: int = 0
    passes: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    pieces: tuple[str, ...] = ()
    probs: tuple[float, ...] = ()

    def confident_start(self, task: InfillingTask, min_prob: float) -> str:
        """The fill as an automatic suggestion: it ends before its first token less likely than `min_prob`."""
        offset = first_unlikely_offset(self.pieces, self.probs, min_prob)
        if offset is None:
            return self.text
        return FillEnding(task.prefix, task.suffix_text).cut_at_low_prob(self.text, offset)

    @classmethod
    def from_fill(cls, task: InfillingTask, text: str, started_at: float, **counts: Any) -> "TaskResult":
        """The result of a task with this fill, begun at `started_at` of `time.perf_counter`.

        A fill of one line ends at its first line break.
        """
        ms = round((time.perf_counter() - started_at) * 1000, 2)
        fill = text.partition("\n")[0] if task.single_line else text
        similarity = edit_similarity(fill, task.solution)
        return cls(task.task_id, fill, similarity == 1, round(similarity, 4), ms=ms, **counts)


def edit_similarity(fill: str, solution: str) -> float:
    """1 - Levenshtein distance / the longer length, in characters, ignoring white space at the ends; 1: the same."""
    a = fill.strip()
    b = solution.strip()
    return 1.0 - _levenshtein(a, b) / max(1, len(a), len(b))


def _levenshtein(a: str, b: str) -> int:
    """The Levenshtein distance: the fewest insertions, deletions and replacements from one text to the other."""
    row = list(range(len(b) + 1))
    for row_index, character in enumerate(a, 1):
        diagonal = row[0]
        row[0] = row_index
        for column, other in enumerate(b, 1):
            diagonal, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, diagonal + (character != other)),
            )
    return row[-1]


def results_summary(results: Sequence[TaskResult]) -> dict[str, float]:
    """Means over `results`, shares 0 to 1; `p50` are medians. Raises statistics.StatisticsError if there are none."""
    means = {
        "tasks": len(results),
        "exact": statistics.fmean(result.exact for result in results),
        "edit_similarity": statistics.fmean(result.edit_similarity for result in results),
        "mean_steps": statistics.fmean(result.steps for result in results),
        "p50_passes": statistics.median(result.passes for result in results),
        "mean_tokens": statistics.fmean(result.tokens for result in results),
        "mean_ms": statistics.fmean(result.ms for result in results),
        "p50_ms": statistics.median(result.ms for result in results),
    }
    return {name: round(value, 4) for name, value in means.items()}


def cut_summary(tasks: Sequence[InfillingTask], results: Sequence[TaskResult], min_prob: float) -> dict[str, float]:
    """Summarises what the user sees of fills that end before their first token less likely than `min_prob`.

    `shown` is the share of holes with a fill, `right` the share of these whose fill is a correct start. The characters
    are means per hole, and `whole` is the share of holes that show the whole solution.
    """
    texts = [result.confident_start(task, min_prob).strip() for task, result in zip(tasks, results, strict=True)]
    shown_tasks = [(task, text) for task, text in zip(tasks, texts, strict=True) if text]
    right = [text for task, text in shown_tasks if task.is_correct_start(text)]
    figures = {
        "holes": len(texts),
        "shown": len(shown_tasks) / len(texts),
        "right": len(right) / max(1, len(shown_tasks)),
        "characters": sum(map(len, texts)) / len(texts),
        "right_characters": sum(map(len, right)) / len(texts),
        "whole": statistics.fmean(text == task.solution.strip() for task, text in zip(tasks, texts, strict=True)),
    }
    return {name: round(value, 4) for name, value in figures.items()}

"""Scores fills against the true text. White space at both ends of a fill does not count."""

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from inference.bench.infilling_tasks import InfillingTask


class TaskResult(msgspec.Struct, frozen=True):
    """The fill of one task and its scores. `completion` goes between prompt and suffix, as in HumanEval-Infilling.

    `steps` counts the denoising steps of the fill, or forward passes from left to right; `passes` counts all of the
    decoder's, including dropped lengths. `tokens` counts the hole's rows, `true_tokens` those of the canonical
    solution.
    """

    task_id: str
    completion: str
    exact: bool
    edit_similarity: float
    steps: int
    passes: int
    tokens: int
    true_tokens: int
    ms: float


def judged(
    task: InfillingTask, fill: str, ms: float, *, steps: int = 0, passes: int = 0, tokens: int = 0, true_tokens: int = 0
) -> TaskResult:
    """The result of a task with this fill, in this many milliseconds."""
    done, solution = task.parts.completion(fill), task.parts.solution
    similarity = round(edit_similarity(fill, solution), 4)
    counted = steps, passes, tokens, true_tokens
    return TaskResult(task.task_id, done, exact(fill, solution), similarity, *counted, round(ms, 2))


def exact(fill: str, solution: str) -> bool:
    """Whether they are the same except for white space at their ends."""
    return fill.strip() == solution.strip()


def edit_similarity(fill: str, solution: str) -> float:
    """1 - Levenshtein distance / the longer length, in characters, ignoring white space at the ends; 1: the same."""
    one, other = fill.strip(), solution.strip()
    longest = max(len(one), len(other))
    return 1.0 if longest == 0 else 1.0 - _distance(one, other) / longest


def _distance(one: str, other: str) -> int:
    """The Levenshtein distance: the fewest insertions, deletions and replacements from one text to the other."""
    row = list(range(len(other) + 1))
    for number, character in enumerate(one, 1):
        above, row[0] = row[0], number
        for column, wanted in enumerate(other, 1):
            above, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, above + (character != wanted))
    return row[-1]


def summary(tasks: Sequence[InfillingTask], results: Sequence[TaskResult]) -> dict[str, Any]:
    """The figures of a run: all tasks together, and each kind separately. Shares are 0 to 1, times in milliseconds."""
    kinds: dict[str, list[TaskResult]] = {}
    for task, result in zip(tasks, results, strict=True):
        kinds.setdefault(task.kind, []).append(result)
    return figures(results) | {"kinds": {kind: figures(some) for kind, some in kinds.items()}}


def figures(results: Sequence[TaskResult]) -> dict[str, Any]:
    """Means over `results`; `p50_ms` is a median. Raises statistics.StatisticsError if there are none."""
    found = {
        "tasks": len(results),
        "exact": statistics.fmean(result.exact for result in results),
        "edit_similarity": statistics.fmean(result.edit_similarity for result in results),
        "mean_steps": statistics.fmean(result.steps for result in results),
        "p50_passes": statistics.median(result.passes for result in results),
        "mean_tokens": statistics.fmean(result.tokens for result in results),
        "mean_true_tokens": statistics.fmean(result.true_tokens for result in results),
        "mean_ms": statistics.fmean(result.ms for result in results),
        "p50_ms": statistics.median(result.ms for result in results),
    }
    return {name: round(value, 4) for name, value in found.items()}

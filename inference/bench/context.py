"""`infill-ls bench infilling --context ARM`: what parts of other files in the prompt are worth, hole by hole.

Knows fill-in-the-middle models alone. The first arm is what the others are compared with. There is one hole per file,
so errors are by file.
"""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from inference.bench.infilling_tasks import Filler, InfillingTask, TaskError, TaskResult, figures, read_as
from inference.engine import Engine
from inference.messages import Snippet
from inference.models.family import Family
from inference.models.fim.adapter import FillInMiddle

ARMS = ("none", "pieces-512", "pieces-512-repo")
"""No other files; pieces of them plain in front of the prefix; the same in the model's form for several files."""
_PIECES_TOKENS = 512


class ContextTask(InfillingTask, frozen=True):
    """A hole, and the `pieces` of other files that the prompt may show, the most like the hole's surroundings first."""

    half: str
    path: str
    pieces: tuple[Snippet, ...]


class ContextResult(TaskResult, frozen=True, kw_only=True):
    """A fill with one arm. `prompt_tokens` counts the whole prompt."""

    arm: str
    prompt_tokens: int


class Showing:
    """A model whose prompts show other files as well: those of one task, the way of one arm."""

    def __init__(self, family: Family) -> None:
        """Raises TaskError for a model of another kind."""
        if not isinstance(family, FillInMiddle):
            raise TaskError("--context compares prompts of models that fill the middle; name such a --model")
        self._family = family
        self._plain = ""
        self._files: tuple[Snippet, ...] = ()
        self._path = ""
        self.tokens = 0
        """How many the last prompt had."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._family, name)

    def show(self, arm: str, path: str, pieces: Sequence[Snippet]) -> None:
        """Shows these pieces from now on as the arm does; `path` is that of the file with the hole."""
        shown = () if arm == "none" else tuple(pieces)
        in_own_form = arm == "pieces-512-repo"
        self._files = shown if in_own_form else ()
        self._path = path if in_own_form else ""
        self._plain = "" if in_own_form else "".join(f"{each.text.rstrip()}\n\n" for each in shown)

    def middle_prompt(self, prefix: str, suffix: str) -> list[int]:
        ids = self._family.middle_prompt(self._plain + prefix, suffix, self._path, self._files)
        self.tokens = len(ids)
        return ids


def read_tasks(file: Path, half: str, limit: int | None) -> list[ContextTask]:
    """The first `limit` tasks of each kind in a half of the packages, or all. Raises TaskError."""
    kinds: dict[str, list[ContextTask]] = {}
    for task in read_as(ContextTask, file):
        if task.half == half:
            kinds.setdefault(task.kind, []).append(task)
    return [task for same in kinds.values() for task in same[:limit]]


def fills(tasks: Sequence[ContextTask], arms: Sequence[str], engine: Engine, fill: Filler) -> Iterator[ContextResult]:
    """Fills each task with all arms, by the engine of a `Showing`."""
    showing: Any = engine.loaded.family
    for task in tasks:
        pieces = _fitting(task.pieces, engine)
        for arm in arms:
            showing.show(arm, task.path, pieces)
            fields = msgspec.structs.asdict(fill(task))
            yield ContextResult(**fields, arm=arm, prompt_tokens=showing.tokens)


def _fitting(snippets: Sequence[Snippet], engine: Engine) -> tuple[Snippet, ...]:
    """The first that fit into the prompt, the last one cut after a line; from the least like the hole to the most."""
    found: list[Snippet] = []
    most = _PIECES_TOKENS
    for snippet in snippets:
        lines = snippet.text.splitlines(keepends=True)
        while lines and (need := len(engine.loaded.vocabulary.encode("".join(lines)))) > most:
            del lines[-1]
        if lines:
            found.insert(0, Snippet(snippet.path, "".join(lines)))
            most -= need
    return tuple(found)


def compared(results: Sequence[ContextResult]) -> dict[str, dict[str, dict[str, float]]]:
    """By kind and arm: the figures, and how they differ from the first arm's on the same holes."""
    arms: dict[str, dict[str, list[ContextResult]]] = {}
    for result in results:
        arms.setdefault(result.kind, {}).setdefault(result.arm, []).append(result)
    return {
        kind: {arm: _against(some, next(iter(same.values()))) for arm, some in same.items()}
        for kind, same in arms.items()
    }


def _against(results: Sequence[ContextResult], base: Sequence[ContextResult]) -> dict[str, float]:
    more = [one.edit_similarity - other.edit_similarity for one, other in zip(results, base, strict=True)]
    pairs = [(one.exact, other.exact) for one, other in zip(results, base, strict=True)]
    return figures(results) | {
        "similarity_gain": round(statistics.fmean(more), 4),
        "standard_error": round(statistics.stdev(more) / len(more) ** 0.5, 4) if len(more) > 1 else 0.0,
        "won": pairs.count((True, False)),
        "lost": pairs.count((False, True)),
        "prompt_tokens": round(statistics.fmean(each.prompt_tokens for each in results), 1),
    }

"""The arms of `infill-ls bench infilling --context ARM`: what parts of other files a prompt shows.

Knows fill-in-the-middle models alone. The first arm is what the others are compared with. There is one hole per file,
so errors are by file.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import cast

from inference.bench import BenchError
from inference.bench.infilling_tasks import InfillingTask, TaskResult, figures
from inference.engine import Engine
from inference.messages import Snippet
from inference.models.fim.adapter import FillInMiddle

_DEFINITIONS_TOKENS = 256


class ContextTask(InfillingTask, frozen=True):
    """A hole, and what the prompt may show of other files: the `pieces` most like the hole's surroundings first.

    `definitions` are those of the names in sight; `today` is what the server sent with three files open.
    """

    half: str
    path: str
    pieces: tuple[Snippet, ...]
    definitions: tuple[Snippet, ...]
    today: tuple[Snippet, ...]


class Prompts:
    """Makes the prompts of one task with one arm, in the place of the family's `middle_prompt`."""

    def __init__(self, engine: Engine) -> None:
        """Raises BenchError."""
        self._encode = engine.loaded.vocabulary.encode
        if not engine.loaded.traits.fills_middle:
            raise BenchError("--context compares prompts of models that fill the middle; name such a --model")
        self._middle_prompt = cast("FillInMiddle", engine.loaded.family).middle_prompt
        vars(engine.loaded.family)["middle_prompt"] = self._prompt
        self._plain = ""
        self._files: tuple[Snippet, ...] = ()
        self._path = ""
        self.tokens = 0

    def show(self, task: ContextTask, arm: str) -> None:
        """Shows what the arm does, from now on. Pieces go from the least like the hole to the most."""
        shown = ARMS[arm](self, task)
        in_own_form = arm in _OWN_FORM
        self._files = shown if in_own_form else ()
        self._path = task.path if in_own_form else ""
        self._plain = "" if in_own_form else "".join(f"{each.text.rstrip()}\n\n" for each in shown)

    def pieces(self, snippets: Sequence[Snippet], most: int) -> tuple[Snippet, ...]:
        """The first that fit into so many tokens, the last one cut after a line; the first one last."""
        found: list[Snippet] = []
        for snippet in snippets:
            lines = snippet.text.splitlines(keepends=True)
            while lines and (need := len(self._encode("".join(lines)))) > most:
                del lines[-1]
            if lines:
                found.insert(0, Snippet(snippet.path, "".join(lines)))
                most -= need
        return tuple(found)

    def _prompt(self, prefix: str, suffix: str) -> list[int]:
        ids = self._middle_prompt(self._plain + prefix, suffix, self._path, self._files)
        self.tokens = len(ids)
        return ids


ARMS: dict[str, Callable[[Prompts, ContextTask], tuple[Snippet, ...]]] = {
    "none": lambda _, task: (),
    "today": lambda _, task: task.today,
    "pieces-256": lambda prompts, task: prompts.pieces(task.pieces, 256),
    "pieces-512": lambda prompts, task: prompts.pieces(task.pieces, 512),
    "pieces-1024": lambda prompts, task: prompts.pieces(task.pieces, 1024),
    "pieces-256-repo": lambda prompts, task: prompts.pieces(task.pieces, 256),
    "pieces-512-repo": lambda prompts, task: prompts.pieces(task.pieces, 512),
    "pieces+definitions": lambda prompts, task: (
        *prompts.pieces(task.definitions, _DEFINITIONS_TOKENS),
        *prompts.pieces(task.pieces, 512),
    ),
}
_OWN_FORM = ("today", "pieces-256-repo", "pieces-512-repo")
"""In the model's form for several files. All others stand plain in front of the prefix."""


def compared(results: Sequence[TaskResult]) -> dict[str, dict[str, float]]:
    """The figures of each arm, and how it differs from the first one on the same holes."""
    arms: dict[str, list[TaskResult]] = {}
    for result in results:
        arms.setdefault(result.arm, []).append(result)
    base = next(iter(arms.values()))
    return {arm: figures(some) | _differences(some, base) for arm, some in arms.items()}


def _differences(results: Sequence[TaskResult], base: Sequence[TaskResult]) -> dict[str, float]:
    more = [one.edit_similarity - other.edit_similarity for one, other in zip(results, base, strict=True)]
    pairs = [(one.exact, other.exact) for one, other in zip(results, base, strict=True)]
    return {
        "similarity_gain": round(statistics.fmean(more), 4),
        "standard_error": round(statistics.stdev(more) / len(more) ** 0.5, 4) if len(more) > 1 else 0.0,
        "won": pairs.count((True, False)),
        "lost": pairs.count((False, True)),
        "prompt_tokens": round(statistics.fmean(each.prompt_tokens for each in results), 1),
    }

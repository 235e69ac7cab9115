"""`infill-ls bench infilling --context ARM`: what parts of other files in the prompt are worth, hole by hole.

Knows fill-in-the-middle models alone. The first arm is what the others are compared with. Each fill is written to the
file of predictions at once, and a run continues from there. There is one hole per file, so errors are by file.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

import msgspec

from inference.bench.infilling_tasks import InfillingTask, TaskError, TaskResult, figures, read_as
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


class ContextResult(TaskResult, frozen=True, kw_only=True):
    """A fill with one arm. `prompt_tokens` counts the whole prompt."""

    arm: str
    model: str
    prompt_tokens: int


class _Prompts:
    """Makes the prompts of one task with one arm, in the place of the family's `middle_prompt`."""

    def __init__(self, engine: Engine) -> None:
        self._encode = engine.loaded.vocabulary.encode
        if not engine.loaded.traits.fills_middle:
            raise TaskError("--context compares prompts of models that fill the middle; name such a --model")
        self._middle_prompt = cast("FillInMiddle", engine.loaded.family).middle_prompt
        vars(engine.loaded.family)["middle_prompt"] = self._prompt
        self._plain = ""
        self._files: tuple[Snippet, ...] = ()
        self._path = ""
        self.tokens = 0

    def show(self, task: ContextTask, arm: str) -> None:
        """Shows what the arm does, from now on. Pieces go from the least like the hole to the most."""
        shown = _ARMS[arm](self, task)
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


_ARMS: dict[str, Callable[[_Prompts, ContextTask], tuple[Snippet, ...]]] = {
    "none": lambda _, task: (),
    "today": lambda _, task: task.today,
    "pieces-256": lambda prompts, task: prompts.pieces(task.pieces, 256),
    "pieces-512": lambda prompts, task: prompts.pieces(task.pieces, 512),
    "pieces-1024": lambda prompts, task: prompts.pieces(task.pieces, 1024),
    "pieces-512-repo": lambda prompts, task: prompts.pieces(task.pieces, 512),
    "pieces+definitions": lambda prompts, task: (
        *prompts.pieces(task.definitions, _DEFINITIONS_TOKENS),
        *prompts.pieces(task.pieces, 512),
    ),
}
_OWN_FORM = ("today", "pieces-512-repo")
"""In the model's form for several files. All others stand plain in front of the prefix."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this comparison."""
    parser.add_argument(
        "--context", action="append", choices=_ARMS, help="show parts of other files; repeat to compare"
    )
    parser.add_argument("--half", choices=("tuning", "report"), default="report", help="with --context: which packages")


def measure(args: argparse.Namespace, engine: Engine, fill: Callable[[ContextTask], TaskResult]) -> None:
    """Fills, compares and prints. Raises TaskError if the tasks do not say what to show."""
    kinds: dict[str, list[ContextTask]] = {}
    for task in read_as(ContextTask, args.data):
        if task.half == args.half and len(same := kinds.setdefault(task.kind, [])) != args.limit:
            same.append(task)
    known = _known(args.predictions, args.model)
    prompts = _Prompts(engine)
    for task in chain.from_iterable(kinds.values()):
        for arm in args.context:
            if (arm, task.task_id) not in known:
                prompts.show(task, arm)
                fields = msgspec.structs.asdict(fill(task))
                filled = ContextResult(**fields, arm=arm, model=args.model, prompt_tokens=prompts.tokens)
                known[arm, task.task_id] = filled
                if args.predictions:
                    with args.predictions.open("ab") as file:
                        file.write(msgspec.json.encode(filled) + b"\n")
    found = {
        kind: {arm: [known[arm, task.task_id] for task in same] for arm in args.context} for kind, same in kinds.items()
    }
    print(json.dumps({"model": args.model, "half": args.half, "kinds": {k: _compared(v) for k, v in found.items()}}))


def _known(file: Path | None, model: str) -> dict[tuple[str, str], ContextResult]:
    """The fills that a run before this one wrote."""
    try:
        lines = file.read_bytes().splitlines() if file else []
        found = [msgspec.json.decode(line, type=ContextResult) for line in lines]
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise TaskError(f"{file} holds no fills of this benchmark: {error}; name another file") from error
    return {(each.arm, each.task_id): each for each in found if each.model == model}


def _compared(arms: dict[str, list[ContextResult]]) -> dict[str, dict[str, float]]:
    """The figures of each arm, and how it differs from the first one on the same holes."""
    base = next(iter(arms.values()))
    shown = {}
    for arm, results in arms.items():
        more = [one.edit_similarity - other.edit_similarity for one, other in zip(results, base, strict=True)]
        pairs = [(one.exact, other.exact) for one, other in zip(results, base, strict=True)]
        shown[arm] = figures(results) | {
            "similarity_gain": round(statistics.fmean(more), 4),
            "standard_error": round(statistics.stdev(more) / len(more) ** 0.5, 4) if len(more) > 1 else 0.0,
            "won": pairs.count((True, False)),
            "lost": pairs.count((False, True)),
            "prompt_tokens": round(statistics.fmean(each.prompt_tokens for each in results), 1),
        }
    return shown

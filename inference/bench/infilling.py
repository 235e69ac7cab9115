"""`infill-ls bench infilling`: how well a checkpoint fills holes with known text.

The tasks are in the HumanEval-Infilling format. White space at the ends of a fill does not count; edit similarity is 1
- Levenshtein distance / the longer length. It prints one JSON object as its last line.
"""

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
from rich.console import Console
from rich.progress import track

from inference.bench import infilling_tasks
from inference.bench.infilling_tasks import Filler, InfillingTask, MeasuredFill, TaskError, TaskResult, judged
from inference.engine import Engine, RequestError
from inference.engine.canvas.plan import Planner
from inference.messages import Candidate, Done, Hole, HoleKind, InfillRequest, Text
from inference.models.family import ModelError

AUTO = "auto"
ORACLE = "oracle"
Task = TypeVar("Task")


@dataclass(frozen=True)
class SolveOptions:
    """How to fill. `length` is AUTO, ORACLE or a number of tokens; `steps` None takes the checkpoint's own number.

    `quick`: as for an automatic suggestion. `typed`: that many characters before the hole are typed first, with an
    automatic suggestion at each.
    """

    length: str | int = AUTO
    steps: int | None = None
    seed: int = 0
    quick: bool = False
    typed: int = 0


class Solver:
    """Fills tasks, one at a time, with one loaded model."""

    def __init__(self, engine: Engine, options: SolveOptions) -> None:
        self._engine = engine
        self._options = options

    def using(self, options: SolveOptions) -> "Solver":
        """A solver with the same model and other options."""
        return Solver(self._engine, options)

    def fill(self, task: InfillingTask) -> MeasuredFill:
        """Fills one task's hole. Raises RequestError if it does not fit on a canvas of this checkpoint."""
        true = self._true_tokens(task)
        length = self._options.length
        tokens = length if isinstance(length, int) else true if length == ORACLE else 0  # 0: the engine chooses
        hole = Hole(_kind(task), max(1, tokens), tokens, single_line=task.single_line)
        for missing in range(min(self._options.typed, len(task.parts.before)), 0, -1):
            deque(self._engine.infill(_request(task, hole, replace(self._options, quick=True), missing)), maxlen=0)
        began = time.perf_counter()
        request = _request(task, hole, self._options)
        events = [event for event in self._engine.infill(request) if isinstance(event, Candidate | Done)]
        ms = (time.perf_counter() - began) * 1000
        found = events[0]
        done = events[-1]
        assert isinstance(done, Done)
        filled = ("", 0, 0) if isinstance(found, Done) else (found.texts[0], found.steps, found.tokens)
        return MeasuredFill(filled[0], filled[1], done.stats.steps, filled[2], true, ms)

    def _true_tokens(self, task: InfillingTask) -> int:
        """The number of open rows for the canonical solution, including the text that healing moved into the hole."""
        loaded = self._engine.loaded
        request = _request(task, Hole(_kind(task), single_line=task.single_line))
        planner = Planner(loaded.vocabulary, loaded.properties, request)
        slots = planner.plan(planner.group_from(0), []).layout.holes[0]
        parts = task.parts
        before = parts.before.encode()
        healed = before[len(before) - slots.skip :].decode()
        return max(1, len(loaded.vocabulary.encode(healed + parts.solution)) - len(slots.forced))


def _kind(task: InfillingTask) -> HoleKind:
    return HoleKind.LINE if task.single_line else HoleKind.BODY


def _request(
    task: InfillingTask, hole: Hole, options: SolveOptions = SolveOptions(), missing: int = 0
) -> InfillRequest:
    """The request, before the last `missing` characters in front of the hole are typed."""
    before = task.parts.before
    segments = (Text(before[: len(before) - missing]), hole, Text(task.parts.after))
    return InfillRequest(
        task.task_id, segments, language="python", max_steps=options.steps, seed=options.seed, quick=options.quick
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        tasks = infilling_tasks.sample(infilling_tasks.read(args.data, args.limit), args.sample, args.seed)
        options = SolveOptions(args.length, args.steps, args.seed, quick=args.quick, typed=args.typed)
        results = run(tasks, _peer(args) if args.by else Solver(load_engine(args), options), args)
    except (TaskError, ModelError, RequestError, OSError, ValueError, httpx2.HTTPError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    _show(args, infilling_tasks.summary(tasks, results))
    return 0


def _peer(args: argparse.Namespace) -> Filler:
    """Who fills in our place. Raises OSError or ValueError if transformers cannot load the model."""
    from inference.bench.infilling_peers import LlamaServer, Transformers

    return Transformers(Path(args.model), args.dtype) if args.by == "transformers" else LlamaServer(args.by)


def load_engine(args: argparse.Namespace) -> Engine:
    """The command line's model, ready to fill. Raises ModelError."""
    from inference.models import registry

    engine = Engine(registry.load(args.model, device=args.device, dtype=args.dtype))
    engine.warm_up()  # otherwise the first task's time would include one-time setup
    return engine


def run(tasks: Sequence[InfillingTask], solver: Filler, args: argparse.Namespace) -> list[TaskResult]:
    """The results of all tasks. Writes each to the file of predictions when it is done."""
    results = []
    for task in with_progress(tasks):
        results.append(judged(task, solver.fill(task)))
        if args.predictions:
            with args.predictions.open("ab" if len(results) > 1 else "wb") as file:
                file.write(msgspec.json.encode(results[-1]) + b"\n")
    return results


def with_progress(tasks: Sequence[Task]) -> Iterable[Task]:
    """Yields the tasks, with progress on standard error."""
    return track(tasks, "tasks", console=Console(stderr=True), transient=True)


def _show(args: argparse.Namespace, summary: dict[str, Any]) -> None:
    names = ("model", "by", "length", "steps", "typed")
    about = {"data": args.data.name, **{name: getattr(args, name) for name in names}}
    if not args.json:
        kinds = summary["kinds"] | {"all": summary}
        for kind, figures in kinds.items():
            print(
                f"{kind}: {figures['tasks']} tasks, exact {figures['exact']:.1%}, edit similarity "
                f"{figures['edit_similarity']:.3f}, {figures['mean_steps']:.1f} steps, "
                f"{figures['p50_passes']:.0f} passes (median), "
                f"{figures['mean_ms']:.0f} ms (median {figures['p50_ms']:.0f})"
            )
    print(json.dumps(about | summary))


def length(value: str) -> str | int:
    """The value of --length. Raises argparse.ArgumentTypeError."""
    if value in (AUTO, ORACLE):
        return value
    return positive(value)


def positive(value: str) -> int:
    """A number of 1 or more. Raises argparse.ArgumentTypeError."""
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number of 1 or more")
    return int(value)


def add_task_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Adds the flags for the tasks, model and seed. `several`: `--model` may be repeated."""
    parser.add_argument("--data", type=Path, required=True, metavar="FILE.jsonl[.gz]", help="the tasks")
    parser.add_argument("--limit", type=positive, metavar="N", help="measure only the first N tasks")
    if several:
        parser.add_argument("--model", action="append", default=[], metavar="ID_OR_FOLDER", help="embedded")
    else:
        parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    parser.add_argument("--device", metavar="NAME", help="where to compute (default: the best device found)")
    parser.add_argument("--dtype", metavar="NAME", help="what to compute in (default: the best found)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the seed of the sample and the sampler (default: 0)"
    )


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
    parser = argparse.ArgumentParser(prog="infill-ls bench infilling", description=__doc__)
    add_task_arguments(parser)
    parser.add_argument("--length", type=length, default=AUTO, metavar="auto|oracle|N", help="tokens in a hole")
    parser.add_argument("--sample", type=positive, metavar="N", help="measure only N tasks, chosen by the seed")
    parser.add_argument("--steps", type=positive, metavar="N", help="take at most N denoising steps")
    parser.add_argument("--quick", action="store_true", help="as for a suggestion that nobody asked for")
    parser.add_argument(
        "--typed", type=positive, default=0, metavar="N", help="type N characters before the hole first"
    )
    parser.add_argument("--by", metavar="transformers|URL", help="who fills instead; a URL: llama.cpp's server")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write every fill, one JSON object a line")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`infill-ls bench infilling`: how well a checkpoint fills holes with known text.

The tasks are in the HumanEval-Infilling format. White space at the ends of a fill does not count; edit similarity is 1
- Levenshtein distance / the longer length. It prints one JSON object as its last line.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from inference.bench import infilling_scores, infilling_tasks
from inference.bench.infilling_scores import TaskResult
from inference.bench.infilling_solve import AUTO, ORACLE, SolveOptions, Solver
from inference.bench.infilling_tasks import InfillingTask, TaskError
from inference.engine import Engine, RequestError
from inference.models.family import ModelError

_QUIET_S = 1.0
_MODES = ("canvas", "left-to-right")


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        tasks = infilling_tasks.read(args.data, args.limit)
        results = run(tasks, load(args, _options(args)), args)
    except (TaskError, ModelError, RequestError, OSError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    _show(args, infilling_scores.summary(tasks, results))
    return 0


def _options(args: argparse.Namespace) -> SolveOptions:
    return SolveOptions(args.length, args.mode == _MODES[1], args.steps, args.seed, quick=args.quick)


def load(args: argparse.Namespace, options: SolveOptions) -> Solver:
    """A solver with the command line's model. Raises ModelError."""
    return Solver(load_engine(args), options)


def load_engine(args: argparse.Namespace) -> Engine:
    """The command line's model, ready to fill. Raises ModelError."""
    from inference.models import registry

    engine = Engine(registry.load(args.model, device=args.device, dtype=args.dtype))
    engine.warm_up()  # otherwise the first task's time would include one-time setup
    return engine


def run(tasks: Sequence[InfillingTask], solver: Solver, args: argparse.Namespace) -> list[TaskResult]:
    """The results of all tasks. Writes each to the file of predictions when it is done."""
    results = []
    for task in with_progress(tasks):
        results.append(solve(task, solver))
        if args.predictions:
            with args.predictions.open("ab" if len(results) > 1 else "wb") as file:
                file.write(msgspec.json.encode(results[-1]) + b"\n")
    return results


def solve(task: InfillingTask, solver: Solver) -> TaskResult:
    """Fills one task and scores the fill."""
    fill = solver.fill(task)
    counted = {"steps": fill.steps, "passes": fill.passes, "tokens": fill.tokens, "true_tokens": fill.true_tokens}
    return infilling_scores.judged(task, fill.text, fill.ms, **counted)


@dataclass
class _TaskCounter:
    """Counts tasks in one line on standard error, at most once in `_QUIET_S`."""

    total: int
    next_s: float

    def show(self, done: int) -> None:
        if time.monotonic() >= self.next_s:
            self.next_s = time.monotonic() + _QUIET_S
            print(f"\r{done}/{self.total} tasks", end="" if done < self.total else "\n", file=sys.stderr, flush=True)


def with_progress(tasks: Sequence[InfillingTask]) -> Iterator[InfillingTask]:
    """Yields the tasks, with progress on standard error if they take more than a second."""
    progress = _TaskCounter(len(tasks), time.monotonic() + _QUIET_S)
    for done, task in enumerate(tasks):
        yield task
        progress.show(done + 1)


def _show(args: argparse.Namespace, summary: dict[str, Any]) -> None:
    about = {"model": args.model, "data": args.data.name, "mode": args.mode, "length": args.length, "steps": args.steps}
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
        parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER")
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--dtype", metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
    parser = argparse.ArgumentParser(prog="infill-ls bench infilling", description=__doc__)
    add_task_arguments(parser)
    parser.add_argument("--length", type=length, default=AUTO, metavar="auto|oracle|N", help="tokens in a hole")
    parser.add_argument("--mode", choices=_MODES, default=_MODES[0], help="left-to-right sees only the prefix")
    parser.add_argument("--steps", type=positive, metavar="N", help="take at most N denoising steps")
    parser.add_argument("--quick", action="store_true", help="as for a suggestion that nobody asked for")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write every fill, one JSON object a line")
    return parser


if __name__ == "__main__":
    sys.exit(main())

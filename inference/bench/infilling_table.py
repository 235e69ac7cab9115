"""`python -m inference.bench.infilling_table`: the quality tables of the model card, from one run.

It prints one table for each kind of task, then one for all. Rows are ways to fill, columns the highest number of
denoising steps; each cell is exact match / edit similarity. Two rows have only the last column: canvases without the
candidates that the encoder writes, and left to right, where a step writes one token. Models that cannot write from left
to right lack these two. The last line is one JSON object.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol

from inference.bench import infilling, infilling_tasks
from inference.bench.infilling_scores import TaskResult, summary
from inference.bench.infilling_solve import AUTO, ORACLE, NotLeftToRightError, SolveOptions, Solver
from inference.bench.infilling_tasks import InfillingTask, TaskError
from inference.engine import RequestError
from inference.models.family import ModelError

_STEPS = (1, 4, 8, None)
_FIXED_TOKENS = 16
_WAYS: dict[str, str | int] = {
    "canvas and encoder, length chosen": AUTO,
    "canvas, true length": ORACLE,
    f"canvas, {_FIXED_TOKENS} tokens": _FIXED_TOKENS,
}
_CANVAS_ALONE = "canvas alone, length chosen"
_PREFIX_ONLY = "left to right, prefix only"


class SolveAll(Protocol):
    """Fills every task with these options; the results are in the order of the tasks."""

    def __call__(self, tasks: Sequence[InfillingTask], options: SolveOptions, /) -> list[TaskResult]: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        tasks = infilling_tasks.read(args.data, args.limit)
        with _solving(args) as solve:
            cells = measure(tasks, solve, args.seed)
    except BrokenProcessPool:
        print("infill-ls: a process died or could not load the model; try --processes 1", file=sys.stderr)
        return 2
    except (TaskError, ModelError, RequestError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    for kind in [*dict.fromkeys(task.kind for task in tasks), None]:
        print(table(cells, kind), end="\n\n")
    print(json.dumps(cells))
    return 0


def measure(tasks: Sequence[InfillingTask], solve: SolveAll, seed: int) -> dict[str, dict[str, Any]]:
    """The figures of each row and column, for all tasks and for each kind."""

    def cell(options: SolveOptions) -> dict[str, Any]:
        return summary(tasks, solve(tasks, options))

    found = {
        name: {_column(steps): cell(SolveOptions(length, steps=steps, seed=seed)) for steps in _STEPS}
        for name, length in _WAYS.items()
    }
    try:
        found[_PREFIX_ONLY] = {_column(None): cell(SolveOptions(left_to_right=True))}
    except NotLeftToRightError:
        return found  # then nothing but canvases has any part in it
    return found | {_CANVAS_ALONE: {_column(None): cell(SolveOptions(continuations=False, seed=seed))}}


@contextmanager
def _solving(args: argparse.Namespace) -> Iterator[SolveAll]:
    """Load one model, or one in each of several processes. Raises ModelError, or BrokenProcessPool for several."""
    if args.processes == 1:
        solver = infilling.load(args, SolveOptions())

        def solve_here(tasks: Sequence[InfillingTask], options: SolveOptions) -> list[TaskResult]:
            again = solver.using(options)
            return [infilling.solve(task, again) for task in infilling.with_progress(tasks)]

        yield solve_here
        return
    with ProcessPoolExecutor(args.processes, get_context("spawn"), _load, (args,)) as pool:

        def solve(tasks: Sequence[InfillingTask], options: SolveOptions) -> list[TaskResult]:
            results = pool.map(partial(_solve, options), tasks)
            return [result for _, result in zip(infilling.with_progress(tasks), results, strict=True)]

        yield solve


_loaded: list[Solver] = []
"""The model of one of several processes."""


def _load(args: argparse.Namespace) -> None:
    _loaded.append(infilling.load(args, SolveOptions()))


def _solve(options: SolveOptions, task: InfillingTask) -> TaskResult:
    return infilling.solve(task, _loaded[0].using(options))


def table(cells: dict[str, dict[str, Any]], kind: str | None) -> str:
    """The cells of one kind of task, or of all tasks for None, in Markdown."""
    columns = [_column(steps) for steps in _STEPS]
    of_kind = {
        name: {column: cell["kinds"][kind] if kind else cell for column, cell in row.items()}
        for name, row in cells.items()
    }
    count = next(iter(of_kind.values()))[columns[-1]]["tasks"]
    head = [f"| {count} tasks, {kind or 'all'}: exact / edit similarity", *columns, "ms |"]
    rows = [" | ".join(head), "|---" * (len(columns) + 2) + "|"]
    for name, row in of_kind.items():
        shown = [_shown(row[column]) if column in row else "" for column in columns]
        rows.append(" | ".join([f"| {name}", *shown, f"{row[columns[-1]]['p50_ms']:.0f} |"]))
    return "\n".join(rows)


def _shown(figures: dict[str, Any]) -> str:
    return f"{figures['exact']:.1%} / {figures['edit_similarity']:.3f}"


def _column(steps: int | None) -> str:
    return "full" if steps is None else f"{steps} step{'s' if steps > 1 else ''}"


def argument_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    parser = argparse.ArgumentParser(prog="infilling_table", description=__doc__)
    infilling.add_task_arguments(parser)
    parser.add_argument("--processes", type=infilling.positive, default=1, metavar="N", help="share out the tasks")
    return parser


if __name__ == "__main__":
    sys.exit(main())

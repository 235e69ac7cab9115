"""`python -m inference.bench.infilling_table`: the quality tables of the model card, from one run.

It prints a table for each kind of task, and one for all: a row for each way to fill, then the differences of further
models from the first. Standard errors are over files, because tasks of one file resemble each other. The last line is
one JSON object. `--examples` shows each task instead, with its true text and its fill.
"""

import argparse
import json
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from inference.bench import infilling, infilling_tasks
from inference.bench.infilling import ORACLE, SolveOptions, Solver
from inference.bench.infilling_tasks import InfillingTask, TaskError, TaskResult
from inference.engine import RequestError
from inference.models.family import ModelError

_CHOSEN, _TRUE = "length chosen", "true length"
_WAYS = {
    _CHOSEN: SolveOptions(),
    "length chosen, without copying": SolveOptions(copying=False),
    _TRUE: SolveOptions(ORACLE),
    "length chosen, canvas alone": SolveOptions(continuations=False),
}
_LONGEST = 60
"""Characters of a cell in an example."""
_FIGURES = ("exact", "edit_similarity")

Filled = dict[str, TaskResult]
"""The result of each way to fill a task, by "model: way"."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    args.models = list(dict.fromkeys(args.model)) or ["embedded"]
    try:
        tasks = sample(infilling_tasks.read(args.data, args.limit), args.sample, args.seed)
        if args.examples:
            solver = _solver(args, args.models[0])
            print("| kind | before the hole | truth | filled | behind it | exact |\n|---|---|---|---|---|---|")
            print("\n".join(_example(task, solver.fill(task).text) for task in tasks))
            return 0
        solvers = _load(args)
        filled = [
            {name: infilling_tasks.judged(task, solver.fill(task)) for name, solver in solvers.items()}
            for task in infilling.with_progress(tasks)
        ]
    except (TaskError, ModelError, RequestError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    kinds = [*dict.fromkeys(task.kind for task in tasks), "all"]
    found = {kind: figures(tasks, filled, args.models, kind) for kind in kinds}
    for kind in kinds:
        print(table(kind, found[kind]), end="\n\n")
    print(json.dumps({"data": args.data.name, "seed": args.seed, "kinds": found}))
    return 0


def sample(tasks: Sequence[InfillingTask], count: int | None, seed: int) -> list[InfillingTask]:
    """This many of the tasks, in order: the same for the same seed. None: all."""
    if count is None or count >= len(tasks):
        return list(tasks)
    chosen = random.Random(seed).sample(range(len(tasks)), count)  # noqa: S311 - a sample, not a secret
    return [tasks[number] for number in sorted(chosen)]


def figures(
    tasks: Sequence[InfillingTask], filled: Sequence[Filled], models: Sequence[str], kind: str
) -> dict[str, Any]:
    """The figures of each row over the tasks of a kind ("all": of every kind)."""
    pairs = [(task, each) for task, each in zip(tasks, filled, strict=True) if kind in (task.kind, "all")]
    files = [task.file for task, _ in pairs]
    columns = {name: [each[name] for _, each in pairs] for name in pairs[0][1]}
    rows: dict[str, Any] = {}
    for name, results in columns.items():
        true = columns[f"{name.partition(': ')[0]}: {_TRUE}"]
        rows[name] = _row(results, true, files)
    for other in models[1:]:
        for way in (_CHOSEN, _TRUE):
            ours, first = columns[f"{other}: {way}"], columns[f"{models[0]}: {way}"]
            rows[f"{other} - {models[0]}: {way}"] = _difference(ours, first, files)
    return {"tasks": len(pairs), "files": len(set(files)), "rows": rows}


def _row(results: Sequence[TaskResult], true: Sequence[TaskResult], files: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for figure in _FIGURES:
        row[figure] = mean(_values(results, figure), files)
        row[f"{figure}_of_true_length"] = ratio(_values(results, figure), _values(true, figure), files)
    passes = statistics.median(each.passes for each in results)
    return row | {"p50_ms": round(statistics.median(each.ms for each in results), 1), "p50_passes": passes}


def _difference(ours: Sequence[TaskResult], first: Sequence[TaskResult], files: Sequence[str]) -> dict[str, Any]:
    pairs = {figure: zip(_values(ours, figure), _values(first, figure), strict=True) for figure in _FIGURES}
    return {figure: mean([one - two for one, two in each], files) for figure, each in pairs.items()}


def _values(results: Sequence[TaskResult], figure: str) -> list[float]:
    return [float(getattr(each, figure)) for each in results]


def table(kind: str, found: dict[str, Any]) -> str:
    """The rows of one kind in Markdown."""
    head = (
        f"| {found['tasks']} tasks of {found['files']} files, {kind} | exact | edit similarity | of the true length's "
    )
    rows = [head + "| ms |", "|---|---|---|---|---|"]
    for name, row in found["rows"].items():
        exact, similarity = row["exact"], row["edit_similarity"]
        shown = [name, f"{exact[0]:.1%} ± {exact[1]:.1%}", f"{similarity[0]:.3f} ± {similarity[1]:.3f}"]
        share = row.get("edit_similarity_of_true_length")
        shown += [f"{share[0]:.2f} ± {share[1]:.2f}", f"{row['p50_ms']:.0f}"] if share else ["", ""]
        rows.append(f"| {' | '.join(shown)} |")
    return "\n".join(rows)


class Estimate(NamedTuple):
    """A mean and its standard error; the error is 0 for a single file."""

    value: float
    error: float


def mean(values: Sequence[float], files: Sequence[str]) -> Estimate:
    """The mean of some tasks' values; `files` gives each task's file."""
    return ratio(values, [1.0] * len(values), files)


def ratio(values: Sequence[float], others: Sequence[float], files: Sequence[str]) -> Estimate:
    """The sum of `values` as a share of that of `others`, task by task; 0 if the latter is nothing."""
    total = sum(others)
    if not total:
        return Estimate(0.0, 0.0)
    share = sum(values) / total
    residuals = defaultdict[str, float](float)
    for value, other, file in zip(values, others, files, strict=True):
        residuals[file] += value - share * other
    count = len(residuals)
    error = math.sqrt(sum(each**2 for each in residuals.values()) * count / max(1, count - 1)) / total
    return Estimate(round(share, 4), round(error if count > 1 else 0.0, 4))


def _load(args: argparse.Namespace) -> dict[str, Solver]:
    """For each "model: way" what fills tasks so. Raises ModelError."""
    found = {}
    for model in args.models:
        solver = _solver(args, model)
        for name, options in _ways(args.steps):
            if (solver.copies or options.copying) and (solver.continues or options.continuations):
                found[f"{model}: {name}"] = solver.using(replace(options, seed=args.seed))
    return found


def _solver(args: argparse.Namespace, model: str) -> Solver:
    return Solver(infilling.load_engine(argparse.Namespace(**vars(args) | {"model": model})), SolveOptions())


def _ways(steps: Sequence[int]) -> Iterator[tuple[str, SolveOptions]]:
    yield from _WAYS.items()
    for name, most in ((name, most) for name in (_CHOSEN, _TRUE) for most in steps):
        yield f"{name}, {most} step{'s' if most > 1 else ''}", replace(_WAYS[name], steps=most)


def _example(task: InfillingTask, filled: str) -> str:
    parts = task.parts
    before, behind = parts.before.rpartition("\n")[2].strip(), parts.after.partition("\n")[0].strip()
    exact = "yes" if infilling_tasks.exact(filled, parts.solution) else ""
    return f"| {task.kind} | {' | '.join(map(_cell, (before, parts.solution, filled, behind)))} | {exact} |"


def _cell(text: str) -> str:
    """A text as one line of code in a table: the first of several, truncated if long."""
    first, *more = text.strip().splitlines() or [""]
    shown = first if len(first) <= _LONGEST else first[: _LONGEST - 1] + "…"
    lines = f" and {len(more)} more lines" if more else ""
    return f"`` {shown.replace('|', chr(92) + '|')} ``{lines}" if shown else ""


def argument_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    parser = argparse.ArgumentParser(prog="infilling_table", description=__doc__)
    infilling.add_task_arguments(parser, several=True)
    parser.add_argument("--sample", type=infilling.positive, metavar="N", help="only N of the tasks, by the seed")
    parser.add_argument(
        "--steps", type=infilling.positive, metavar="N", action="append", default=[], help="also at most N steps"
    )
    parser.add_argument("--examples", action="store_true", help="show each fill instead of the tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())

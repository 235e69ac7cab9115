"""`python -m inference.bench.infilling_table`: the table of the README and the model card, from one run.

Rows are ways to fill, columns the most denoising steps; each cell is exact match / edit similarity. From left to right
a step writes one token, so there is only the last column. Last line of output: one JSON object.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from inference.bench import infilling, infilling_tasks
from inference.bench.infilling_scores import figures
from inference.bench.infilling_solve import AUTO, ORACLE, Options
from inference.bench.infilling_tasks import Task, TaskError
from inference.engine import ModelError, RequestError

_STEPS = (1, 4, 8, None)
_FIXED_TOKENS = 16
_CANVAS: dict[str, str | int] = {
    "canvas, length chosen": AUTO,
    "canvas, true length": ORACLE,
    f"canvas, {_FIXED_TOKENS} tokens": _FIXED_TOKENS,
}
_PREFIX_ONLY = "left to right, prefix only"


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="infilling_table", description=__doc__)
    infilling.add_common(parser)
    parser.add_argument("--lines", action="store_true", help="single-line tasks only")
    args = parser.parse_args(argv)
    try:
        tasks = [task for task in infilling_tasks.read(args.data) if task.single_line or not args.lines]
        cells = measure(tasks[: args.limit], args)
    except (TaskError, ModelError, RequestError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    print(table(cells, len(tasks[: args.limit])))
    print(json.dumps(cells))
    return 0


def measure(tasks: Sequence[Task], args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The figures of each row and column, with one loaded model."""
    solver = infilling.load(args, Options(seed=args.seed))

    def cell(options: Options) -> dict[str, Any]:
        again = solver.using(options)
        return figures([infilling.solve(task, again) for task in infilling.shown(tasks)])

    found = {
        name: {_column(steps): cell(Options(length, steps=steps, seed=args.seed)) for steps in _STEPS}
        for name, length in _CANVAS.items()
    }
    return found | {_PREFIX_ONLY: {_column(None): cell(Options(left_to_right=True))}}


def table(cells: dict[str, dict[str, Any]], count: int) -> str:
    """The cells in Markdown."""
    columns = [_column(steps) for steps in _STEPS]
    head = [f"| {count} tasks: exact / edit similarity", *columns, "ms |"]
    rows = [" | ".join(head), "|---" * (len(columns) + 2) + "|"]
    for name, row in cells.items():
        shown = [_shown(row[column]) if column in row else "" for column in columns]
        rows.append(" | ".join([f"| {name}", *shown, f"{row[columns[-1]]['p50_ms']:.0f} |"]))
    return "\n".join(rows)


def _shown(figures: dict[str, Any]) -> str:
    return f"{figures['exact']:.1%} / {figures['edit_similarity']:.3f}"


def _column(steps: int | None) -> str:
    return "full" if steps is None else f"{steps} step{'s' if steps > 1 else ''}"


if __name__ == "__main__":
    sys.exit(main())

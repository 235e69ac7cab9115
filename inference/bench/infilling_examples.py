"""`python -m inference.bench.infilling_examples --data FILE --count 10 --pick 1`: fills picked by a seed, not by hand.

For the model card. Prints one row for each task, as Markdown: the text before the hole on its line, the true text, the
model's fill with its default settings, and the text behind the hole. The same `--pick` picks the same tasks of a file,
whatever the model.
"""

import argparse
import random
import sys
from collections.abc import Sequence

from inference.bench import infilling, infilling_scores, infilling_tasks
from inference.bench.infilling_solve import SolveOptions
from inference.bench.infilling_tasks import InfillingTask, TaskError
from inference.engine import RequestError
from inference.models.family import ModelError

_LONGEST = 60
"""Characters of a cell."""


def main(argv: Sequence[str] | None = None) -> int:
    """Picks, fills and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        tasks = picked(infilling_tasks.read(args.data, args.limit), args.count, args.pick)
        solver = infilling.load(args, SolveOptions(seed=args.seed))
        rows = [_row(task, solver.fill(task).text) for task in tasks]
    except (TaskError, ModelError, RequestError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    print("| kind | before the hole | truth | filled | behind it | exact |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


def picked(tasks: Sequence[InfillingTask], count: int, seed: int) -> list[InfillingTask]:
    """This many of the tasks, or all if there are fewer, in file order."""
    chosen = set(random.Random(seed).sample(range(len(tasks)), min(count, len(tasks))))  # noqa: S311 - no secret
    return [task for number, task in enumerate(tasks) if number in chosen]


def _row(task: InfillingTask, filled: str) -> str:
    parts = task.parts
    before, behind = parts.before.rpartition("\n")[2].strip(), parts.after.partition("\n")[0].strip()
    exact = "yes" if infilling_scores.exact(filled, parts.solution) else ""
    return f"| {task.kind} | {' | '.join(map(_cell, (before, parts.solution, filled, behind)))} | {exact} |"


def _cell(text: str) -> str:
    """A text as one line of code in a table: the first of several, truncated if long."""
    first, *more = text.strip().splitlines() or [""]
    shown = first if len(first) <= _LONGEST else first[: _LONGEST - 1] + "…"
    lines = f" and {len(more)} more lines" if more else ""
    return f"`` {shown.replace('|', chr(92) + '|')} ``{lines}" if shown else ""


def argument_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    parser = argparse.ArgumentParser(prog="infilling_examples", description=__doc__)
    infilling.add_task_arguments(parser)
    parser.add_argument("--count", type=infilling.positive, default=10, metavar="N", help="how many tasks")
    parser.add_argument("--pick", type=int, default=1, metavar="SEED", help="picks other tasks for another number")
    return parser


if __name__ == "__main__":
    sys.exit(main())

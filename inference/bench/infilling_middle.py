"""`python -m inference.bench.infilling_middle`: the basis of the search for causal models, measured on true texts.

`cut`: lines that are cut at a character, filled with the prompt cut there too (plain), with the prompt cut where the
line starts and all that is typed given (forced), with its last token decoded again (healed, as the engine does), and
with the prompt cut before the last token typed and that decoded again (plain, healed).

`joint`: several ends of lines in one function, each filled with nothing in the others (alone), in order, the surest
first by the mean, sum or least log-probability of its tokens, and the combination of the two likeliest texts of each
hole that makes the whole region likeliest.

The last line is one JSON object.
"""

import argparse
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any, cast

from inference.bench import infilling, infilling_scores, infilling_tasks, joint_tasks
from inference.bench.infilling_tasks import InfillingTask
from inference.bench.joint_tasks import JointTask
from inference.engine import Engine
from inference.engine.canvas.segments import TextAndHoles
from inference.engine.middle.asking import Asked, Asking
from inference.engine.middle.branch import Branch
from inference.engine.middle.branches import Branches
from inference.engine.middle.infilling import standing
from inference.engine.middle.lookup import Lookup
from inference.engine.middle.writer import Writer
from inference.messages import Hole, InfillRequest
from inference.models.family import MiddleFamily

_SUREST: dict[str, Callable[[Branch], float]] = {
    "surest first, mean": lambda branch: branch.score,
    "surest first, sum": lambda branch: branch.total,
    "surest first, least": lambda branch: min(choice.chance for choice in branch.choices),
}


class Ways:
    """Fills holes in several ways with one loaded model, and counts passes and tokens."""

    def __init__(self, engine: Engine) -> None:
        self._model, self.family = engine.loaded, cast("MiddleFamily", engine.loaded.family)
        self.passes, self.tokens = 0, 0

    def asked(self, texts: Sequence[str], fills: Sequence[str], number: int) -> Asked:
        """A hole of one line between texts, as the engine asks for it."""
        parts = TextAndHoles(tuple(texts), (Hole(single_line=True),) * len(fills))
        return Asking(self._model, self.family, InfillRequest("", ())).of(parts, fills, number)

    def write(self, asked: Asked, *, forced: bool = False, candidates: int = 1) -> list[Branch]:
        """The likeliest text, then others. `forced`: no token is decoded again."""
        branch = Branch.given(self._model.vocabulary, asked)
        if forced:
            ids = self._model.vocabulary.encode(asked.given.decode())
            branch = Branch(asked, ids, len(ids), asked.given)
        with closing(self.family.open([*asked.prompt_ids, *branch.ids])) as context:
            list(context.encode())
            lookup = Lookup(asked.prompt_ids)
            writer = Writer(self._model, self.family, context, branch.forced, lookup)
            list(writer.write(branch))
            self.passes, self.tokens = self.passes + writer.passes, self.tokens + len(branch.choices)
            found, branches = [branch], Branches(writer, lookup)
            branches.add(branch)
            list(branches.further(found, candidates))
            return found

    def region(self, texts: Sequence[str], all_fills: Sequence[Sequence[str]]) -> list[float]:
        """The log-probability of all from the first hole to the last with each of these fills."""
        asked = self.asked((texts[0], texts[-1]), ("",), 0)
        with closing(self.family.open(asked.prompt_ids)) as context:
            list(context.encode())
            writer, found = Writer(self._model, self.family, context, 0, None), []
            for fills in all_fills:
                inside = "".join(fill + text for fill, text in zip(fills, [*texts[1:-1], ""], strict=True))
                branch, ids = standing(self._model, replace(asked, single_line=False), inside)
                list(writer.read(branch, ids))
                found.append(branch.total + writer.log_end(branch))
            return found

    def last_token(self, text: str) -> str:
        """The last token of a text's last line, where it is whole characters."""
        ids = self._model.vocabulary.encode(text.rpartition("\n")[2])
        try:
            return self._model.vocabulary.bytes_of(ids[-1:]).decode()
        except UnicodeDecodeError:
            return ""


def cut(ways: Ways, tasks: Sequence[InfillingTask], chance: random.Random) -> Iterator[dict[str, bool]]:
    """Whether the rest of each line is exact, each way."""
    for task in tasks:
        parts = task.parts
        place = chance.randrange(1, max(2, len(parts.solution)))
        before, rest, after = parts.before + parts.solution[:place], parts.solution[place:], parts.after
        healed = ways.asked((before, after), ("",), 0)
        last = ways.last_token(before)
        kept = before.removesuffix(last)
        prompts = [tuple(ways.family.middle_prompt(text, after)) for text in (before, kept)]
        plain = replace(healed, prompt_ids=prompts[0], given=b"", skip=0)
        moved = replace(healed, prompt_ids=prompts[1], given=last.encode(), skip=len(last.encode()))
        texts = {
            "plain": ways.write(plain),
            "forced": ways.write(healed, forced=True),
            "healed": ways.write(healed),
            "plain, healed": ways.write(moved),
        }
        yield {name: infilling_scores.exact(found[0].text, rest) for name, found in texts.items()}


def joint(ways: Ways, tasks: Sequence[JointTask]) -> Iterator[dict[str, list[bool]]]:
    """Which holes of each task are exact, each way."""
    for task in tasks:
        yield {
            name: [infilling_scores.exact(one, other) for one, other in zip(fills, task.solutions, strict=True)]
            for name, fills in _joint(ways, task.texts, len(task.solutions))
        }


def _joint(ways: Ways, texts: Sequence[str], count: int) -> Iterator[tuple[str, Sequence[str]]]:
    @cache
    def fill(number: int, fills: tuple[str, ...]) -> Branch:
        return ways.write(ways.asked(texts, fills, number))[0]

    def put(fills: tuple[str, ...], number: int, text: str) -> tuple[str, ...]:
        return (*fills[:number], text, *fills[number + 1 :])

    empty = ("",) * count
    yield "alone", [fill(number, empty).text for number in range(count)]
    ordered = empty
    for number in range(count):
        ordered = put(ordered, number, fill(number, ordered).text)
    yield "in order", ordered
    for name, sureness in _SUREST.items():
        fills, left = empty, set(range(count))
        while left:
            number = max(left, key=lambda each: sureness(fill(each, fills)))
            fills = put(fills, number, fill(number, fills).text)
            left.remove(number)
        yield name, fills
    seen = [put(ordered, number, "") for number in range(count)]
    several = [ways.write(ways.asked(texts, each, number), candidates=2) for number, each in enumerate(seen)]
    choices = [dict.fromkeys([ordered[n], *(branch.text for branch in found)]) for n, found in enumerate(several)]
    combinations = list(itertools.product(*choices))
    best = max(zip(ways.region(texts, combinations), combinations, strict=True), key=lambda pair: pair[0])
    yield "likeliest combination", best[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    ways = Ways(infilling.load_engine(args))
    tasks = infilling_tasks.read(args.data)
    found: dict[str, Any]
    if args.what == "cut":
        lines = [task for task in tasks if task.kind == "line" and len(task.parts.solution) > 1]
        found = _shares(list(cut(ways, _counted(lines[: args.limit]), random.Random(args.seed))))  # noqa: S311
    else:
        several = joint_tasks.make(tasks, args.limit or len(tasks), args.seed)
        found = _joint_shares(list(joint(ways, _counted(several))))
    found |= {"tokens_per_pass": round(ways.tokens / max(1, ways.passes), 3)}
    print(json.dumps({"what": args.what, "model": args.model, "data": args.data.name, "seed": args.seed} | found))
    return 0


def _counted(tasks: Sequence[Any]) -> Any:
    return infilling.with_progress(tasks)


def _shares(rows: Sequence[dict[str, bool]]) -> dict[str, Any]:
    shares = {name: round(sum(row[name] for row in rows) / len(rows), 4) for name in rows[0]}
    return {"tasks": len(rows), "exact": shares}


def _joint_shares(rows: Sequence[dict[str, list[bool]]]) -> dict[str, Any]:
    holes = sum(len(row["alone"]) for row in rows)
    return {
        "tasks": len(rows),
        "holes": holes,
        "exact_holes": {name: round(sum(sum(row[name]) for row in rows) / holes, 4) for name in rows[0]},
        "exact_tasks": {name: round(sum(all(row[name]) for row in rows) / len(rows), 4) for name in rows[0]},
    }


def argument_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    parser = argparse.ArgumentParser(prog="infilling_middle", description=__doc__)
    infilling.add_task_arguments(parser)
    parser.add_argument("--what", choices=("cut", "joint"), required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())

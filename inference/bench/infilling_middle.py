"""`python -m inference.bench.infilling_middle`: the basis of the search for causal models, measured on true texts.

`cut`: lines cut at a character. The prompt ends there (plain), or where the line starts, with the typed text given
(forced); healed decodes the last typed token again. `joint`: several ends of lines in one function, see `_joint`. The
last line is one JSON object.
"""

import argparse
import itertools
import json
import random
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from inference.bench import infilling, infilling_tasks
from inference.bench.infilling_tasks import InfillingTask
from inference.engine import Engine
from inference.engine.canvas.segments import TextAndHoles
from inference.engine.middle.asking import Asked, Asking
from inference.engine.middle.branch import Branch
from inference.engine.middle.branches import Branches
from inference.engine.middle.region import Region
from inference.engine.middle.writer import Lookup, Writer
from inference.messages import Candidate, Hole, InfillRequest, Text
from inference.models.family import MiddleFamily

_FUNCTION = re.compile(r"^([ \t]*)(?:async )?def \w+", re.MULTILINE)
_LINES = range(5, 41)
"""The required number of non-blank lines in a function."""
_PART = re.compile(r"\w+|[^\w\s]|\s+")
_WORD = re.compile(r"[^\W\d]{2}")


@dataclass(frozen=True)
class JointTask:
    """Holes between texts: `texts[i]` precedes the hole of `solutions[i]`, with one more at the end."""

    task_id: str
    file: str
    texts: tuple[str, ...]
    solutions: tuple[str, ...]


def joint_tasks(tasks: Sequence[InfillingTask], count: int, seed: int) -> list[JointTask]:
    """At most `count` tasks, each from one function of a file; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    known: set[str] = set()
    found: list[JointTask] = []
    for task in chance.sample(tasks, len(tasks)):
        text = task.prompt + task.canonical_solution + task.suffix
        functions = [body for body in _functions(text) if text[slice(*body)].strip() not in known]
        if functions and len(found) < count:
            body = chance.choice(functions)
            known.add(text[slice(*body)].strip())
            if joint := _task(task, text, body, chance):
                found.append(joint)
    return found


def _functions(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of the bodies of whole functions."""
    lines = list(re.finditer(r"^[ \t]*(?=\S)", text, re.MULTILINE))
    for start in _FUNCTION.finditer(text):
        behind = (line for line in lines if line.start() > start.start() and len(line[0]) <= len(start[1]))
        end = next((line.start() for line in behind if text[line.end()] not in ")]}"), None)
        if end is not None and sum(map(bool, map(str.strip, text[start.end() : end].split("\n")))) in _LINES:
            yield text.index("\n", start.end()) + 1, end


def _task(task: InfillingTask, text: str, body: tuple[int, int], chance: random.Random) -> JointTask | None:
    """Ends of some lines of a body, or None if too few can be cut."""
    lines = re.finditer(r"^.+$", text[slice(*body)], re.MULTILINE)
    places = []
    for line in lines:
        before = text[body[0] : body[0] + line.start()]
        in_string = any(before.count(quotes) % 2 for quotes in ('"""', "'''"))
        if not in_string and (place := _end_of(line, body[0], chance)):
            places.append(place)
    count = chance.choice((2, 3, 4))
    if len(places) < count:
        return None
    holes = sorted(chance.sample(places, count))
    starts, ends = [0, *(end for _, end in holes)], [*(start for start, _ in holes), len(text)]
    texts = tuple(text[start:end] for start, end in zip(starts, ends, strict=True))
    return JointTask(f"joint/{task.task_id}", task.file, texts, tuple(text[start:end] for start, end in holes))


def _end_of(line: re.Match[str], offset: int, chance: random.Random) -> tuple[int, int] | None:
    """The rest of a line of code from one of its tokens on."""
    code = line[0].rstrip()
    if code.lstrip().startswith(("#", '"', "'")):
        return None
    starts = [part.start() for part in _PART.finditer(code) if part.start() > len(code) - len(code.lstrip())]
    fitting = [at for at in starts if len(code) - at >= 4 and _WORD.search(code, at)]
    start = offset + line.start()
    return (start + chance.choice(fitting), start + len(code)) if fitting else None


class Ways:
    """Fills holes in several ways with one loaded model, and counts passes and tokens."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._model, self.family = engine, engine.loaded, cast("MiddleFamily", engine.loaded.family)
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
        parts = TextAndHoles(tuple(texts), (Hole(single_line=True),) * (len(texts) - 1))
        region = Region(self._model, Asking(self._model, self.family, InfillRequest("", ())), parts)
        with closing(self.family.open(region.asked.prompt_ids)) as context:
            list(context.encode())
            writer = Writer(self._model, self.family, context, 0, None)
            return [_result(region.log_likelihood(writer, fills)) for fills in all_fills]

    def engine(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The engine's own answer."""
        holes = [Hole(single_line=True)] * (len(texts) - 1)
        rest = [each for pair in zip(holes, map(Text, texts[1:]), strict=True) for each in pair]
        events = self._engine.infill(InfillRequest("", (Text(texts[0]), *rest), candidates=1))
        return next((event.texts for event in events if isinstance(event, Candidate)), ("",) * len(holes))

    def last_token(self, text: str) -> str:
        """The last token of a text's last line, where it is whole characters."""
        ids = self._model.vocabulary.encode(text.rpartition("\n")[2])
        try:
            return self._model.vocabulary.bytes_of(ids[-1:]).decode()
        except UnicodeDecodeError:
            return ""


def cut(ways: Ways, tasks: Iterable[InfillingTask], chance: random.Random) -> Iterator[dict[str, bool]]:
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
        texts = {"plain": ways.write(plain), "forced": ways.write(healed, forced=True)}
        texts |= {"healed": ways.write(healed), "plain, healed": ways.write(moved)}
        yield {name: infilling_tasks.exact(found[0].text, rest) for name, found in texts.items()}


def joint(ways: Ways, tasks: Iterable[JointTask]) -> Iterator[dict[str, list[bool]]]:
    """Which holes of each task are exact, each way."""
    for task in tasks:
        yield {
            name: [infilling_tasks.exact(one, other) for one, other in zip(fills, task.solutions, strict=True)]
            for name, fills in _joint(ways, task.texts, len(task.solutions))
        }


def _joint(ways: Ways, texts: Sequence[str], count: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Fills each hole with nothing in the others, in order, surest first, in combination, by the engine."""

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
    surest, left = empty, set(range(count))
    while left:
        number = max(left, key=lambda each: fill(each, surest).score)
        surest = put(surest, number, fill(number, surest).text)
        left.remove(number)
    yield "surest first", surest
    seen = [put(ordered, number, "") for number in range(count)]
    several = [ways.write(ways.asked(texts, each, number), candidates=2) for number, each in enumerate(seen)]
    choices = [dict.fromkeys([ordered[n], *(branch.text for branch in found)]) for n, found in enumerate(several)]
    combinations = list(itertools.product(*choices))
    best = max(zip(ways.region(texts, combinations), combinations, strict=True), key=lambda pair: pair[0])
    yield "likeliest combination", best[1]
    yield "engine", ways.engine(texts)


def _result(steps: Generator[None, None, float | None]) -> float:
    """What a generator returns; never None here, where nothing is late."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return float(stop.value)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    ways = Ways(infilling.load_engine(args))
    tasks = infilling_tasks.read(args.data)
    found: dict[str, Any]
    if args.what == "cut":
        lines = [task for task in tasks if task.kind == "line" and len(task.parts.solution) > 1]
        rows = list(cut(ways, infilling.with_progress(lines[: args.limit]), random.Random(args.seed)))  # noqa: S311
        shares = {name: round(sum(row[name] for row in rows) / len(rows), 4) for name in rows[0]}
        found = {"tasks": len(rows), "exact": shares}
    else:
        several = joint_tasks(tasks, args.limit or len(tasks), args.seed)
        solved = list(joint(ways, infilling.with_progress(several)))
        holes = sum(len(row["alone"]) for row in solved)
        by_hole = {name: round(sum(sum(row[name]) for row in solved) / holes, 4) for name in solved[0]}
        by_task = {name: round(sum(all(row[name]) for row in solved) / len(solved), 4) for name in solved[0]}
        found = {"tasks": len(solved), "holes": holes, "exact_holes": by_hole, "exact_tasks": by_task}
    found |= {"tokens_per_pass": round(ways.tokens / max(1, ways.passes), 3)}
    print(json.dumps({"what": args.what, "model": args.model, "data": args.data.name, "seed": args.seed} | found))
    return 0


def argument_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    parser = argparse.ArgumentParser(prog="infilling_middle", description=__doc__)
    infilling.add_task_arguments(parser)
    parser.add_argument("--what", choices=("cut", "joint"), required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())

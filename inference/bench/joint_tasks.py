"""Carves tasks with several holes out of the functions in other tasks' texts: ends of two to four of their lines."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference.bench.infilling_tasks import InfillingTask

_FUNCTION = re.compile(r"^([ \t]*)(?:async )?def \w+", re.MULTILINE)
_LINES = range(5, 41)
"""The required number of non-blank lines in a function."""
_HOLES = (2, 3, 4)
_PART = re.compile(r"\w+|[^\w\s]|\s+")
_LEAST_CHARACTERS = 4
_WORD = re.compile(r"[^\W\d]{2}")


@dataclass(frozen=True)
class JointTask:
    """Holes between texts: `texts[i]` precedes the hole of `solutions[i]`, with one more at the end."""

    task_id: str
    file: str
    texts: tuple[str, ...]
    solutions: tuple[str, ...]


def make(tasks: Sequence[InfillingTask], count: int, seed: int) -> list[JointTask]:
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
    code = (line for line in lines if not _in_string(text[body[0] : body[0] + line.start()]))
    places = [place for line in code if (place := _end_of(line, body[0], chance))]
    count = chance.choice(_HOLES)
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
    fitting = [at for at in starts if len(code) - at >= _LEAST_CHARACTERS and _WORD.search(code, at)]
    if not fitting:
        return None
    start = offset + line.start()
    return start + chance.choice(fitting), start + len(code)


def _in_string(before: str) -> bool:
    """Whether a multi-line string is open at the end of a text."""
    return any(before.count(quotes) % 2 for quotes in ('"""', "'''"))

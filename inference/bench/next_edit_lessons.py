"""Makes lessons for `python -m inference.training.next_edit` from cases of `infill-ls bench next-edit`.

    python -m inference.bench.next_edit_lessons CASES.jsonl.gz LESSONS.jsonl

A lesson holds what the engine would judge once a case's first change is made, once some others are made, too, and once
all are; and which of the texts is right at each place. Where nothing is, the lines are right as they are.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from inference.bench import next_edit_cases
from inference.bench.next_edit import State
from inference.bench.next_edit_cases import EditCase, LineChange, apply, is_exact
from inference.engine.next_edit import diff
from inference.engine.next_edit.judging import JudgedPlace, alike, places
from inference.engine.next_edit.tokens import lines_of
from inference.messages import NextEditRequest
from inference.training.next_edit_tree import Lesson, LessonPlace


def main(argv: Sequence[str] | None = None) -> int:
    """Makes a file of lessons; the last line of output is one JSON object."""
    args = argument_parser().parse_args(argv)
    asked = lessons = wanted = 0
    with args.out.open("wb") as out:
        for case in next_edit_cases.read(args.cases):
            for made in _stages(case):
                asked += 1
                if (lesson := lesson_of(case, made)).places:
                    out.write(msgspec.json.encode(lesson) + b"\n")
                    lessons, wanted = lessons + 1, wanted + lesson.has_wanted
    print(json.dumps({"out": args.out.name, "asked": asked, "lessons": lessons, "with_a_right_text": wanted}))
    return 0


def lesson_of(case: EditCase, made: Sequence[int]) -> Lesson:
    """The places to judge once these changes of a case are made."""
    text = apply(case.text, [case.changes[number] for number in made])
    lines, hunks = lines_of(text), State(case, case.text, text, 0).hunks
    request = NextEditRequest("lesson", text, hunks, case.language, case.path)
    left = list(_left(case, made))
    found = places(lines, request, [one for some in alike(lines, request) for one in some])
    judged = tuple(_judged(lines, place, left) for place in found)
    return Lesson(case.name, case.kind, len(made), len(left), diff.changes(case.path, lines, hunks), judged)


def _stages(case: EditCase) -> Iterator[tuple[int, ...]]:
    """The numbers of the changes made, in order."""
    count, chance = len(case.changes), random.Random(case.name)  # noqa: S311
    if count:
        yield (0,)
    if count > 2:
        yield (0, *sorted(chance.sample(range(1, count), chance.randrange(1, count - 1))))
    if count > 1:
        yield tuple(range(count))


def _left(case: EditCase, made: Sequence[int]) -> Iterator[LineChange]:
    """The remaining changes, at their lines in the text with `made`."""
    shift = 0
    for number, change in enumerate(case.changes):
        if number in made:
            shift += change.new.count("\n") - change.old.count("\n")
        else:
            yield LineChange(change.line + shift, change.old, change.new)


def _judged(lines: Sequence[str], place: JudgedPlace, left: Sequence[LineChange]) -> LessonPlace:
    texts = [diff.text(lines, place.end, text) for text in (place.now, *place.texts)]
    right = (number for number, text in enumerate(place.texts) if _is_right(lines, place, text, left))
    return LessonPlace(diff.place(lines, place.line, place.now), tuple(texts), place.likeness, next(right, -1))


def _is_right(lines: Sequence[str], place: JudgedPlace, text: str, left: Sequence[LineChange]) -> bool:
    """Whether a text turns these lines into the author's, or part of the way."""
    near = [one for one in left if one.line <= place.end and place.line <= one.line + one.old.count("\n")]
    if not near:
        return False
    first = min(place.line, *(one.line for one in near))
    end = max(place.end, *(one.line + one.old.count("\n") for one in near))
    now = "".join(lines[first:end])
    after = "".join(lines[first : place.line]) + text + "".join(lines[place.end : end])
    return is_exact(now, after, apply(now, [LineChange(one.line - first, one.old, one.new) for one in near]))


def argument_parser() -> argparse.ArgumentParser:
    """The maker's flags."""
    parser = argparse.ArgumentParser(prog="python -m inference.bench.next_edit_lessons", description=__doc__)
    parser.add_argument("cases", type=Path, metavar="CASES.jsonl.gz")
    parser.add_argument("out", type=Path, metavar="LESSONS.jsonl")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`infill-ls bench make-data`: carves tasks for `infill-ls bench infilling` out of a Python source tree.

The same folder, options and seed give the same file. Leaves out files that mostly repeat others, and a hole whose text
and preceding line were carved already. It prints one JSON object as its last line.
"""

import argparse
import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

from inference.bench import infilling_tasks
from inference.bench.infilling import positive
from inference.bench.infilling_tasks import InfillingTask
from inference.bench.make_data_carve import KINDS, CarvableFile, HoleRange, UnparsableError
from inference.training.duplicates import Duplicates

_LINES_PER_TASK = 25
"""A file gives one task per this many lines."""

_FILE_BYTES = range(200, 300_000)


@dataclass(frozen=True)
class CarveRules:
    """How to carve. A kind named twice comes twice as often. `prompt` and `suffix` limit the characters kept."""

    kinds: tuple[str, ...] = KINDS
    seed: int = 0
    prompt: int = 4000
    suffix: int = 1500


def main(argv: Sequence[str] | None = None) -> int:
    """Carves and writes; returns the exit status."""
    args = argument_parser().parse_args(argv)
    if not args.folder.is_dir():
        print(f"infill-ls: {args.folder} is not a folder", file=sys.stderr)
        return 2
    rules = CarveRules(args.kinds, args.seed, args.prompt_characters, args.suffix_characters)
    tasks = list(islice(carve(args.folder, rules), args.limit))
    if not tasks:
        print(f"infill-ls: nothing could be carved out of {args.folder}: no suitable Python files", file=sys.stderr)
        return 2
    infilling_tasks.write(args.out, tasks)
    print(json.dumps({"out": args.out.name, "tasks": len(tasks), "kinds": Counter(task.kind for task in tasks)}))
    return 0


def carve(folder: Path, rules: CarveRules) -> Iterator[InfillingTask]:
    """Yields tasks, one from each file in turn until all files are used up."""
    known: set[tuple[str, str]] = set()
    files = [_tasks(name, text, rules, turn) for turn, (name, text) in enumerate(_files(folder, rules.seed))]
    for task in chain.from_iterable(zip_longest(*files)):
        if task is None:
            continue
        line_before = task.prompt[task.prompt.rstrip().rfind("\n") + 1 :].strip()
        if (line_before, task.canonical_solution) not in known:
            known.add((line_before, task.canonical_solution))
            yield task


def _files(folder: Path, seed: int) -> Iterator[tuple[str, str]]:
    """Names and texts of the usable files, in an order independent of their folders."""
    duplicates = Duplicates()
    named = ((file.relative_to(folder).as_posix(), file) for file in folder.rglob("*.py"))
    for name, file in sorted(named, key=lambda item: hashlib.sha256(f"{seed}/{item[0]}".encode()).digest()):
        try:
            if file.stat().st_size not in _FILE_BYTES:
                continue
            text = file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if "\r" not in text and "\f" not in text and duplicates.admit(text):
            yield name, text


def _tasks(name: str, text: str, rules: CarveRules, turn: int) -> Iterator[InfillingTask]:
    """The tasks of one file. `turn` sets the kind it begins with, so that no kind gets all the first tasks."""
    chance = random.Random(f"{rules.seed}/{name}")  # noqa: S311 - a sample, not a secret
    try:
        source = CarvableFile(text)
    except UnparsableError:
        return
    queues = {kind: source.holes(kind, chance) for kind in KINDS}
    taken: list[HoleRange] = []
    for number in range(max(1, text.count("\n") // _LINES_PER_TASK)):
        kind = rules.kinds[(turn + number) % len(rules.kinds)]
        hole = next((hole for hole in queues[kind] if _is_free(hole, taken)), None)
        if hole is not None:
            taken.append(hole)
            yield _task(f"{kind}/{name}", text, hole, rules)


def _is_free(hole: HoleRange, taken: Sequence[HoleRange]) -> bool:
    return all(hole[1] <= start or end <= hole[0] for start, end in taken)


def _task(name: str, text: str, hole: HoleRange, rules: CarveRules) -> InfillingTask:
    """A task cut to whole lines at both ends, with the line number of its hole in its name."""
    start, end = hole
    first = 0 if start <= rules.prompt else text.find("\n", start - rules.prompt, start) + 1 or start - rules.prompt
    last = text.rfind("\n", end, end + rules.suffix) + 1 if len(text) > end + rules.suffix else len(text)
    row = text.count("\n", 0, start) + 1
    return InfillingTask(f"{name}:{row}", text[first:start], text[end : max(last, end)], text[start:end])


def _kinds(value: str) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in value.split(","))
    unknown = set(kinds) - set(KINDS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    return kinds


def argument_parser() -> argparse.ArgumentParser:
    """The command's flags."""
    rules = CarveRules()
    parser = argparse.ArgumentParser(prog="infill-ls bench make-data", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the source tree")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl[.gz]")
    parser.add_argument("--limit", type=positive, metavar="N", help="carve at most N tasks")
    parser.add_argument("--kinds", type=_kinds, default=KINDS, help=f"of {','.join(KINDS)}; named twice: twice as many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompt-characters", type=positive, default=rules.prompt, metavar="N", help="keep the last")
    parser.add_argument("--suffix-characters", type=positive, default=rules.suffix, metavar="N", help="keep the first")
    return parser


if __name__ == "__main__":
    sys.exit(main())

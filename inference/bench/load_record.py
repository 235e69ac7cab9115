"""Writes the keystrokes that `infill-ls bench load` replays: `python -m inference.bench.load_record SOURCE --out FILE`.

No person was recorded. The text is real: parts of this project's own files are taken out and typed in again, line by
line, with slips that are corrected. The times between keys are drawn: log-normal around 150 ms, longer at the ends of
lines and before a new place, which is a quick typist of some 60 words a minute. The same files and seed give the same
output.
"""

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_PLACES = 3
_LINES = 3
_SLIPS = 0.02
_LETTERS = "etaoinsrhl"
Edit = tuple[int, int, int, str]
"""Milliseconds since the edit before, offset, how many characters go, what comes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Writes one recording for each source."""
    parser = argparse.ArgumentParser(prog="python -m inference.bench.load_record", description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, metavar="SOURCE")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl.gz")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    chance = random.Random(args.seed)  # noqa: S311 - typing, not cryptography
    lines = [json.dumps(record(source, chance), separators=(",", ":")) for source in args.sources]
    args.out.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    return 0


def record(source: Path, chance: random.Random) -> dict[str, Any]:
    """One file without some of its lines, and the keystrokes that write them again."""
    lines = source.read_text("ascii").splitlines(keepends=True)
    starts = _places(lines, chance)
    gone = {number for start in starts for number in range(start, start + _LINES)}
    base, edits, offset, shift = "", list[Edit](), 0, 0
    for number, line in enumerate(lines):
        if number not in gone:
            base, offset = base + line, offset + len(line)
        elif number in starts:
            typed = list(_typed("".join(lines[number : number + _LINES]), offset + shift, chance))
            edits += typed
            shift += sum(len(new) - removed for _, _, removed, new in typed)
    return {"path": source.name, "language": "python", "text": base, "edits": edits}


def _places(lines: Sequence[str], chance: random.Random) -> list[int]:
    """The first lines of the removed parts: code, spread out."""
    able = [n for n in range(8, len(lines) - _LINES) if all(_is_code(line) for line in lines[n : n + _LINES])]
    found: list[int] = []
    while able and len(found) < _PLACES:
        found.append(chance.choice(able))
        able = [n for n in able if abs(n - found[-1]) > 2 * _LINES]
    return sorted(found)


def _is_code(line: str) -> bool:
    return line.startswith("    ") and len(line.strip()) > 8 and '"""' not in line and "#" not in line


def _typed(text: str, at: int, chance: random.Random) -> Iterator[Edit]:
    """Lines as an editor makes them: Return begins the next line with its indentation."""
    indent = text[: len(text) - len(text.lstrip())]
    yield chance.randint(1500, 3500), at, 0, f"{indent}\n"
    offset, rest = at + len(indent), text[len(indent) :].removesuffix("\n")
    while rest:
        if rest[0] == "\n":
            new = rest[: len(rest) - len(rest[1:].lstrip(" "))]
            yield chance.randint(300, 1200), offset, 0, new
        else:
            new = rest[0]
            if chance.random() < _SLIPS:
                yield _pause_ms(chance), offset, 0, chance.choice(_LETTERS)
                yield 2 * _pause_ms(chance), offset, 1, ""
            yield _pause_ms(chance), offset, 0, new
        offset, rest = offset + len(new), rest[len(new) :]


def _pause_ms(chance: random.Random) -> int:
    return min(int(chance.lognormvariate(5.0, 0.5)), 1500)


if __name__ == "__main__":
    sys.exit(main())

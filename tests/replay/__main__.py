"""`python -m tests.replay record CHECKOUT FILE` and `python -m tests.replay compare OLD NEW`.

Formats are chosen by measurement, so both recordings must be of one machine. Ten minutes on two cores.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.replay import fills, sessions

_FILLS = {
    "qwen": ("qwen2.5-coder-0.5b", 100),
    "twin": (str(fills.DATA / "twin"), 50),
    "masked": (str(fills.DATA / "masked"), 50),
}
PARTS = ("server", *_FILLS)


async def record(checkout: Path, parts: list[str], count: int | None) -> dict[str, Any]:
    """What the parts answer; `count` None: as many as the comparison of two commits takes."""
    found: dict[str, Any] = {}
    for part in parts:
        if part == "server":
            found[part] = await sessions.record(checkout, count or 200)
        else:
            model, usual = _FILLS[part]
            found[part] = await fills.record(checkout, model, count or usual)
        print(f"{part}: {len(found[part])}", file=sys.stderr)
    return found


def compare(old: Any, new: Any, path: str = "") -> list[str]:
    """Each difference, as a line."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = list(dict.fromkeys([*old, *new]))
        return [line for key in keys for line in compare(old.get(key), new.get(key), f"{path}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for number, pair in pairs for line in compare(*pair, f"{path}/{number}")]
    return [] if old == new else [f"{path}\n  - {json.dumps(old)[:600]}\n  + {json.dumps(new)[:600]}"]


def main() -> int:
    """Records or compares; the status is 1 if there is a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("checkout", type=Path)
    recording.add_argument("file", type=Path)
    recording.add_argument("--only", choices=PARTS, action="append")
    recording.add_argument("--count", type=int, help="of sessions and of fills (default: 200, 100, 50, 50)")
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    args = parser.parse_args()
    if args.command == "record":
        found = asyncio.run(record(args.checkout.resolve(), args.only or list(PARTS), args.count))
        args.file.write_text(json.dumps(found, indent=1, sort_keys=True))
        return 0
    old, new = (json.loads(file.read_text()) for file in (args.old, args.new))
    same_parts = [part for part in PARTS if part in old and part in new]
    differences = [line for part in same_parts for line in compare(old[part], new[part], part)]
    print("\n".join([*differences, f"{', '.join(same_parts)}: {len(differences)} differences"]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

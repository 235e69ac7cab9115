"""`python -m tests.replay record CHECKOUT FILE` and `python -m tests.replay compare OLD NEW`.

Formats are chosen by measurement, so both recordings must be of one machine. Ten minutes on two cores.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from inference.bench import infilling_tasks
from inference.bench.infilling_tasks import InfillingTask
from inference.messages import Done, Failed, InfillRequest
from tests.replay import sessions
from tests.replay.ruled_worker import Message
from tests.workers import Process, is_idle

DATA = Path(__file__).parents[1] / "data"
_SNIPPET = {"type": "snippet", "path": "helpers.py", "text": "def read_all(path: str) -> list[str]:\n    return []\n"}
_FILLS = {"qwen": ("qwen2.5-coder-0.5b", 100), "twin": (str(DATA / "twin"), 50), "masked": (str(DATA / "masked"), 50)}
"""Models, and how many of their fills the comparison of two commits takes."""
PARTS = ("server", *_FILLS)


async def record(checkout: Path, parts: list[str], count: int | None) -> dict[str, Any]:
    """What the parts answer; `count` None: as many as the comparison of two commits takes."""
    found: dict[str, Any] = {}
    for part in parts:
        if part == "server":
            found[part] = await sessions.record(checkout, count or 200)
        else:
            model, usual = _FILLS[part]
            found[part] = await record_fills(checkout, model, count or usual)
        print(f"{part}: {len(found[part])}", file=sys.stderr)
    return found


async def record_fills(checkout: Path, model: str, count: int) -> dict[str, Any]:
    """Each request's answers by its name: texts, scores, passes, drafts; without a deadline and with fixed seeds."""
    with tempfile.TemporaryDirectory(prefix="replay-", dir="/tmp") as folder:
        home, python = Path(folder) / "run", checkout / ".venv/bin/python"
        home.mkdir(mode=0o700)
        words = ("--model", model, "--idle-s", "600")
        worker = Process(home, *words, python=python, OMP_NUM_THREADS="1")
        try:
            client = await worker.connect()
            await client.becomes(is_idle)
            found = {}
            for name, asked in _requests(count):
                client.send(msgspec.convert(asked, InfillRequest))
                replies = [await client.answer()]
                while not isinstance(replies[-1], Done | Failed):
                    replies.append(await client.answer())
                found[name] = _told(msgspec.to_builtins(replies))
            return found
        finally:
            worker.popen.terminate()
            worker.popen.wait()


def _requests(count: int) -> list[tuple[str, Message]]:
    """Lines, spans and bodies of held-out files: for one candidate and for several, with context, typed, reworked."""
    tasks = infilling_tasks.read_tasks(DATA / "held_out.jsonl.gz")
    stride = len(tasks) // count
    some = enumerate(tasks[: count * stride : stride])
    return [(f"{number}: {task.task_id}", _request(number, task)) for number, task in some]


def _request(number: int, task: InfillingTask) -> Message:
    before, truth, after = task.prompt[-1500:], task.canonical_solution, task.suffix[:800]
    hole: Message = {"type": "hole", "single_line": "\n" not in truth, "kind": "line"}
    segments: list[Message] = [{"type": "text", "text": before}, hole, {"type": "text", "text": after}]
    request: Message = {"type": "infill", "id": str(number), "language": "python", "path": "main.py"}
    request |= {"segments": segments, "seed": number, "drafts": number % 2 == 0, "quick": number % 4 == 0}
    request |= {"candidates": (1, 1, 3)[number % 3]}
    if "\n" in truth:
        hole |= {"kind": "block", "max_tokens": 24}
    if number % 5 == 1:
        hole |= {"starts_with": truth[:2], "min_tokens": 2}
    if number % 5 == 2:
        request["context"] = [_SNIPPET]
    if number % 10 == 3:
        hole |= {"text": truth[: len(truth) // 2] + "x", "strength": 0.6}
    if number % 10 == 4:  # a second hole, further down
        head, _, rest = after.partition("\n")
        between, behind = ({"type": "text", "text": text} for text in (f"{head}\n    y = ", f"\n{rest}"))
        segments[2:] = [between, {"type": "hole"}, behind]
    return request


def _told(replies: list[Message]) -> Any:
    """Without times. Scores to three digits, for a sum may be taken in another order."""
    drafts = [reply["pieces"] for reply in replies if reply["type"] == "draft"]
    candidates = [
        {key: reply.get(key, 0) for key in ("texts", "steps", "tokens")} | {"score": round(reply.get("score", 0.0), 3)}
        for reply in replies
        if reply["type"] == "candidate"
    ]
    end = replies[-1]
    stats = {key: value for key, value in end.get("stats", {}).items() if not key.endswith("ms")}
    said = end.get("message", end.get("outcome", ""))
    return {"candidates": candidates, "drafts": drafts, "end": said, "stats": stats}


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

"""Fills and next edits by real models, one after the other, without a deadline and with fixed seeds."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from inference.bench import infilling_tasks
from inference.bench.infilling_tasks import InfillingTask
from tests.replay.worker_protocol import Message, WorkerClient

DATA = Path(__file__).parents[1] / "data"
_SNIPPET = {"type": "snippet", "path": "helpers.py", "text": "def read_all(path: str) -> list[str]:\n    return []\n"}


async def record(checkout: Path, model: str, count: int) -> dict[str, Any]:
    """Each request's answers by its name: texts, scores, passes, and the drafts."""
    with tempfile.TemporaryDirectory(prefix="replay-", dir="/tmp") as folder:
        socket = Path(folder) / "w.sock"
        words = ["-P", "-m", "inference.worker", "--socket", str(socket), "--model", model]
        words += ["--idle-s", "600", "--foreground"]
        worker = await asyncio.create_subprocess_exec(
            checkout / ".venv/bin/python", *words, cwd=checkout, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        try:
            client = await WorkerClient.connect(socket)
            return {name: _told(await client.ask(request)) for name, request in _requests(count)}
        finally:
            worker.terminate()
            await worker.wait()


def _requests(count: int) -> list[tuple[str, Message]]:
    """Lines, spans and bodies of held-out files: for one candidate and for several, with context, typed, reworked."""
    tasks = infilling_tasks.read(DATA / "held_out.jsonl.gz")
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

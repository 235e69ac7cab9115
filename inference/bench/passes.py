"""How fast a fill-in-the-middle model reads and writes here, alone or beside llama.cpp.

Fills lines twice, first cold, then as the next keystroke finds it. It starts each llama.cpp that --peer names with the
same file, and asks all in turns, line by line, with the servers that --url names, such as `infill-ls serve --http`. Its
last line of output is one JSON object; compare ratios, not machines.

With --edits KIND it asks for the lines around each hole instead, as of an edit model: with the lines as they are as the
draft, and without. The servers write as many tokens behind the same prompt.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

import httpx2
import psutil
import torch

from inference.bench import BenchError, add_model, command, infilling_tasks, loaded, positive, run, times_ms
from inference.bench.infilling_tasks import InfillingTask
from inference.bench.server_process import llama_server
from inference.engine import Engine
from inference.engine.next_edit.rewriting import EditRewriting
from inference.messages import Candidate, Done, Draft, EditKind, Hole, Hunk, InfillRequest, NextEditRequest, Text
from inference.models import edit_prompts
from inference.models.family import MiddleFamily
from inference.serving.startup import release_memory

_TYPED = 2
_MOST_TOKENS = 32
_ROWS = (1, 2, 4, 8, 16, 64, 256)
_REPEATS = 5
_BANDWIDTH_BYTES = 1 << 29
_TIMEOUT_S = 120
_SHORTEST_PROMPT = 1000


@dataclass(frozen=True)
class Filled:
    """What one line took: the tokens and milliseconds of reading the prompt and of writing."""

    seconds: float
    read_tokens: int
    read_ms: float
    written_tokens: int
    written_ms: float


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Fills lines here and at the servers. Raises BenchError and ModelError."""
    began = time.perf_counter()
    tasks = [task for task in infilling_tasks.read(args.tasks) if task.single_line]
    tasks = [task for task in tasks if len(task.prompt) > _SHORTEST_PROMPT]
    engine = loaded(args)
    if not engine.loaded.traits.fills_middle or not tasks:
        raise BenchError(f"{args.model} does not fill the middle, or {args.tasks} has no long prompt before a line")
    release_memory()
    load = {"load_s": time.perf_counter() - began, "memory_mb": _memory_mb()}
    tasks = tasks[:: max(1, len(tasks) // args.limit)][: args.limit]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        peers = []
        for number, program in enumerate(args.peer):
            peers.append(llama_server([program], args.model, folder / f"{number}.log", _threads()))
            stack.callback(peers[-1].stop)
        loads_s = [peer.wait() for peer in peers]
        urls = (*(peer.url for peer in peers), *args.url)
        if args.edits:
            return load | {"regions": len(tasks), **_rewrites(engine, args.edits, tasks, urls)}
        fillers = {url: partial(_by_server, url) for url in urls}
        filled = _filled(tasks, {"": partial(_by_engine, engine), **fillers})
        about: dict[str, dict[str, Any]] = {
            peer.url: {"system_info": peer.system_info, "load_s": load_s, "memory_mb": peer.memory_mb}
            for peer, load_s in zip(peers, loads_s, strict=True)
        }
    ours = _figures(filled.pop(""))
    family = cast("MiddleFamily", engine.loaded.family)
    on_gpu = family.device.type == "cuda"
    machine = torch.cuda.get_device_name() if on_gpu else torch.backends.cpu.get_cpu_capability()
    theirs = [about.get(url, {"url": url}) | _beside(ours, _figures(times)) for url, times in filled.items()]
    return load | {
        "system_info": f"n_threads = {_threads()} | torch {torch.__version__}: {machine} | {engine.dtype}",
        "lines": len(tasks),
        "ours": ours | {"memory_mb": _memory_mb()},
        "device_memory_mb": torch.cuda.max_memory_allocated() >> 20 if on_gpu else 0,
        "pass_ms_by_rows": _passes(family, tasks[0]),
        "reads_gb_s": _bandwidth_gb_s(family.device),
        "peers": theirs,
    }


Filler = Callable[[InfillingTask, int], Filled]
"""Fills a line once so many characters of it are typed."""


def _filled(tasks: Sequence[InfillingTask], fillers: dict[str, Filler]) -> dict[str, dict[int, list[Filled]]]:
    """What each filler took, by the number of characters typed."""
    found: dict[str, dict[int, list[Filled]]] = {name: {0: [], _TYPED: []} for name in fillers}
    for task in tasks:
        for name, fill in fillers.items():
            for typed, times in found[name].items():
                times.append(fill(task, typed))
    return found


def _figures(times: dict[int, list[Filled]]) -> dict[str, float]:
    """The seconds, and the tokens a second of cold lines."""
    cold = times[0]
    return {
        "cold_s": sum(one.seconds for one in cold),
        "next_key_s": sum(one.seconds for one in times[_TYPED]),
        **_speeds(cold),
    }


def _speeds(times: Sequence[Filled]) -> dict[str, float]:
    read_ms = sum(one.read_ms for one in times)
    written_ms = sum(one.written_ms for one in times)
    return {
        "prompt_tokens_s": 1000 * sum(one.read_tokens for one in times) / max(1e-9, read_ms),
        "output_tokens_s": 1000 * sum(one.written_tokens for one in times) / max(1e-9, written_ms),
    }


def _beside(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
    return theirs | {f"{what}_ratio": ours[f"{what}_s"] / theirs[f"{what}_s"] for what in ("cold", "next_key")}


def _by_engine(engine: Engine, task: InfillingTask, typed: int) -> Filled:
    """As in llama.cpp's timings, the pass that reads the prompt's end yields the first token."""
    parts = (
        Text(task.before + task.solution[:typed]),
        Hole(single_line=True, max_tokens=_MOST_TOKENS),
        Text(task.after),
    )
    began = time.perf_counter()
    written = 0
    read_s = 0.0
    for event in engine.infill(InfillRequest("passes", parts, seed=1, drafts=True)):
        if isinstance(event, Draft):
            read_s = read_s or time.perf_counter() - began
        elif isinstance(event, Candidate):
            written = written or event.tokens
        elif isinstance(event, Done):
            stats = event.stats
    seconds = time.perf_counter() - began
    read = stats.prefix_tokens - stats.reused_tokens
    return Filled(seconds, read, 1000 * read_s, written, 1000 * (seconds - read_s))


def _by_server(server: str, task: InfillingTask, typed: int) -> Filled:
    began = time.perf_counter()
    answer = infilling_tasks.llama_fill(server, task, _MOST_TOKENS, _TIMEOUT_S, typed=typed, cache_prompt=True)
    seconds = time.perf_counter() - began
    return _told(server, answer, seconds)


def _told(server: str, answer: dict[str, Any], seconds: float) -> Filled:
    """What a server says of its times. Raises BenchError."""
    found = answer.get("timings")
    if found is None:
        raise BenchError(f"{server} tells no timings, as llama.cpp does")
    return Filled(seconds, found["prompt_n"], found["prompt_ms"], found["predicted_n"], found["predicted_ms"])


def _rewrites(
    engine: Engine, kind: EditKind, tasks: Iterable[InfillingTask], urls: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Each line's surroundings rewritten here, `drafted` and `plain`, and by the servers: seconds, tokens, passes."""
    found = defaultdict[str, list[Filled]](list)
    passes = Counter[str]()
    for task in tasks:
        request = _edit_request(task)
        for name, most in (("drafted", None), ("plain", 0)):
            began = time.perf_counter()
            work = EditRewriting(engine.loaded, kind, request, None, most)
            stats = next(event.stats for event in work if isinstance(event, Done))
            seconds = time.perf_counter() - began
            read, tokens = stats.prefix_tokens - stats.reused_tokens, len(engine.loaded.vocabulary.encode(work.written))
            found[name].append(Filled(seconds, read, stats.encode_ms, tokens, 1000 * seconds - stats.encode_ms))
            passes[name] += work.passes
        prompt = edit_prompts.prompt_for(kind, request)
        for url in urls:
            found[url].append(_continued(url, prompt.text if prompt else "", tokens))
    return {
        name: {
            "seconds": sum(one.seconds for one in times),
            "output_tokens": sum(one.written_tokens for one in times),
            "passes": passes[name],
            **_speeds(times),
        }
        for name, times in found.items()
    }


def _edit_request(task: InfillingTask) -> NextEditRequest:
    """As after the user has written what was in the hole."""
    text = task.before + task.solution + task.after
    cursor = len(task.before + task.solution)
    start = text.rfind("\n", 0, cursor) + 1
    new = text[start : text.find("\n", cursor) + 1]
    old = text[start : len(task.before)] + text[cursor : start + len(new)]
    change = Hunk(text.count("\n", 0, cursor), old, new)
    return NextEditRequest("passes", text, (change,), path="main.py", cursor=cursor)


def _continued(server: str, prompt: str, tokens: int) -> Filled:
    """So many tokens behind a prompt, by llama.cpp."""
    asked = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
    began = time.perf_counter()
    answer = httpx2.post(f"{server}/completion", json=asked, timeout=_TIMEOUT_S, trust_env=False).raise_for_status()
    seconds = time.perf_counter() - began
    return _told(server, answer.json(), seconds)


def _passes(family: MiddleFamily, task: InfillingTask) -> dict[int, float]:
    """Milliseconds of a pass by its rows, including their logits: the fastest of some."""
    ids = family.tokenizer.encode(task.before[-3000:], add_special_tokens=False).ids
    context = family.open(ids)
    for _ in context.encode():
        pass
    writing = context.continuation(max(_ROWS) + 1)
    writing.feed(torch.empty(1, 0, dtype=torch.long))

    def one_pass(rows: int) -> None:
        writing.feed_rows(torch.tensor([ids[:rows]]))[0, -1, 0].item()  # waits for the device
        writing.trim(rows)

    found = {rows: min(times_ms(partial(one_pass, rows), _REPEATS)) for rows in _ROWS}
    context.close()
    return found


def _bandwidth_gb_s(device: torch.device) -> float:
    """How fast a pass reads memory: the best of some sums of half a gigabyte."""
    held = torch.zeros(_BANDWIDTH_BYTES // 8, dtype=torch.long, device=device)
    return _BANDWIDTH_BYTES / 1e6 / min(times_ms(lambda: held.sum().item(), _REPEATS))


def _memory_mb() -> int:
    return int(psutil.Process().memory_info().rss) >> 20


def _threads() -> int:
    return torch.get_num_threads()


def argument_parser() -> argparse.ArgumentParser:
    parser = command("passes", __doc__)
    parser.add_argument("tasks", type=Path, metavar="FILE", help="tasks in the HumanEval-Infilling format")
    add_model(parser)
    parser.add_argument("--edits", choices=get_args(EditKind)[1:], help="ask it for rewrites, by this prompt")
    parser.add_argument("--limit", type=positive, default=8, metavar="N", help="how many lines")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="PROGRAM", help="a llama-server to compare with; repeat for more"
    )
    parser.add_argument("--url", action="append", default=[], help="a running server with llama.cpp's /infill")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return run(argument_parser(), measure, argv)


if __name__ == "__main__":
    sys.exit(main())

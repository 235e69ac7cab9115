"""How fast a fill-in-the-middle model reads and writes here, alone or beside llama.cpp.

Fills lines twice, first cold, then as the next keystroke finds it. It starts each llama.cpp that --peer names with the
same file, and asks all in turns, line by line, with the servers that --url names, such as `infill-ls serve --http`. Its
last line of output is one JSON object; compare ratios, not machines.

With --edits KIND it asks for the lines around each hole instead, as of an edit model: with the lines as they are as the
draft, and without. The servers write as many tokens behind the same prompt.
"""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import psutil
import torch

from inference.bench import BenchError, add_model, infilling_tasks, loaded, positive, times_ms
from inference.bench.infilling_tasks import InfillingTask
from inference.bench.server_process import ask_llama, llama_server
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
            peers.append(llama_server([program], args.model, folder / f"{number}.log", torch.get_num_threads()))
            stack.callback(peers[-1].stop)
        loads_s = [peer.wait() for peer in peers]
        urls = [*(peer.url for peer in peers), *args.url]
        if args.edits:
            return load | {"regions": len(tasks), **_rewrites(engine, args.edits, tasks, urls)}
        fillers = [partial(_by_engine, engine), *(partial(_by_server, url) for url in urls)]
        ours, *theirs = _filled(tasks, fillers)
        about = [
            {"system_info": peer.system_info, "load_s": load_s, "memory_mb": peer.memory_mb}
            for peer, load_s in zip(peers, loads_s, strict=True)
        ]
    about += [{"url": url} for url in args.url]
    for figures in theirs:
        figures.update({f"{what}_ratio": ours[f"{what}_s"] / figures[f"{what}_s"] for what in ("cold", "next_key")})
    family = engine.loaded.middle
    on_gpu = family.device.type == "cuda"
    machine = torch.cuda.get_device_name() if on_gpu else torch.backends.cpu.get_cpu_capability()
    threads = f"n_threads = {torch.get_num_threads()} | torch {torch.__version__}"
    return load | {
        "system_info": f"{threads}: {machine} | {engine.dtype}",
        "lines": len(tasks),
        "ours": ours | {"memory_mb": _memory_mb()},
        "device_memory_mb": torch.cuda.max_memory_allocated() >> 20 if on_gpu else 0,
        "pass_ms_by_rows": _passes(family, tasks[0]),
        "reads_gb_s": _bandwidth_gb_s(family.device),
        "peers": [one | figures for one, figures in zip(about, theirs, strict=True)],
    }


def _filled(
    tasks: Sequence[InfillingTask], fillers: Sequence[Callable[[InfillingTask, int], Filled]]
) -> list[dict[str, float]]:
    """Fills each line by each filler, cold and once some of it is typed; the seconds, and the cold tokens a second."""
    found = defaultdict[tuple[int, int], list[Filled]](list)
    for task in tasks:
        for number, fill in enumerate(fillers):
            for typed in (0, _TYPED):
                found[number, typed].append(fill(task, typed))
    seconds = {key: sum(one.seconds for one in times) for key, times in found.items()}
    return [
        {"cold_s": seconds[number, 0], "next_key_s": seconds[number, _TYPED], **_speeds(found[number, 0])}
        for number in range(len(fillers))
    ]


def _speeds(times: Sequence[Filled]) -> dict[str, float]:
    read_ms = sum(one.read_ms for one in times)
    written_ms = sum(one.written_ms for one in times)
    return {
        "prompt_tokens_s": 1000 * sum(one.read_tokens for one in times) / max(1e-9, read_ms),
        "output_tokens_s": 1000 * sum(one.written_tokens for one in times) / max(1e-9, written_ms),
    }


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


def _by_server(url: str, task: InfillingTask, typed: int) -> Filled:
    return _told(url, "infill", task.for_llama(_MOST_TOKENS, typed) | {"cache_prompt": True})


def _told(url: str, path: str, asked: dict[str, Any]) -> Filled:
    """What a server says of its times when it is asked. Raises BenchError."""
    began = time.perf_counter()
    found = ask_llama(url, path, asked, _TIMEOUT_S).get("timings")
    seconds = time.perf_counter() - began
    if found is None:
        raise BenchError(f"{url} tells no timings, as llama.cpp does")
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
        asked = {"prompt": prompt.text if prompt else "", "n_predict": tokens, "temperature": 0}
        for url in urls:
            found[url].append(_told(url, "completion", asked | {"ignore_eos": True, "cache_prompt": False}))
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tasks", type=Path, metavar="FILE", help="tasks in the HumanEval-Infilling format")
    add_model(parser)
    parser.add_argument("--edits", choices=get_args(EditKind)[1:], help="ask it for rewrites, by this prompt")
    parser.add_argument("--limit", type=positive, default=8, metavar="N", help="how many lines")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="PROGRAM", help="a llama-server to compare with; repeat for more"
    )
    parser.add_argument("--url", action="append", default=[], help="a running server with llama.cpp's /infill")

"""`infill-ls bench passes`: how fast a fill-in-the-middle model reads and writes here, alone or beside llama.cpp.

Fills lines twice, first cold, then as the next keystroke finds it. It starts each llama.cpp that `--peer` names with
the same file, and asks all in turns, line by line, with the servers that `--url` names, such as `infill-ls serve
--http`. Its last line of output is one JSON object; compare ratios, not machines.

With `--edits KIND` it asks for the lines around each hole instead, as of an edit model: with the lines as they are as
the draft, and without; llama.cpp writes as many tokens behind the same prompt.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

import httpx2
import psutil
import torch

from inference.bench import infilling_tasks, positive
from inference.bench.infilling_tasks import InfillingTask, TaskError
from inference.bench.llama_server import LlamaServer
from inference.engine import Engine
from inference.engine.next_edit.rewriting import EditRewriting
from inference.messages import Candidate, Done, Draft, EditKind, Hole, Hunk, InfillRequest, NextEditRequest, Text
from inference.models import edit_prompts, registry
from inference.models.family import MiddleFamily, ModelError
from inference.serving.startup import release_memory

_TYPED = 2
_MOST_TOKENS = 32
_ROWS = (1, 2, 4, 8, 16, 64, 256)
_BANDWIDTH_BYTES = 1 << 29
_TIMEOUT_S = 120
_REWRITES = ("region_tokens", "drafted_passes", "plain_passes", "drafted_output_s", "plain_output_s")
"""Of all rewrites: the tokens written, and the passes and seconds that writing took."""


Times = dict[str, float]
"""Seconds of whole requests, and, of cold ones, the tokens and milliseconds of reading and of writing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    began = time.perf_counter()
    try:
        tasks = [task for task in infilling_tasks.read(args.tasks) if task.single_line and len(task.prompt) > 1000]
        engine = Engine(registry.load(args.model, device=args.device, dtype=args.dtype), edits=args.edits)
        if not engine.loaded.traits.fills_middle or not tasks:
            raise ModelError(f"{args.model} does not fill the middle, or {args.tasks} has no long prompt before a line")
        engine.warm_up()
        release_memory()
        found = {"load_s": time.perf_counter() - began, "memory_mb": psutil.Process().memory_info().rss >> 20}
        step = max(1, len(tasks) // args.limit)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            peers = []
            for number, program in enumerate(args.peer):
                peers.append(LlamaServer([program], args.model, folder / f"{number}.log", torch.get_num_threads()))
                stack.callback(peers[-1].stop)
            print(json.dumps(found | measured(engine, tasks[::step][: args.limit], peers, args.url)))
    except (ModelError, TaskError, httpx2.HTTPError, KeyError, RuntimeError, TimeoutError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    return 0


def argument_parser() -> argparse.ArgumentParser:
    """The arguments of the benchmark."""
    parser = argparse.ArgumentParser(prog="infill-ls bench passes")
    parser.add_argument("tasks", type=Path, metavar="FILE", help="tasks in the HumanEval-Infilling format")
    parser.add_argument("--model", required=True, metavar="FILE_OR_FOLDER", help="the model")
    parser.add_argument("--device", metavar="NAME", help="where to compute (default: the best device found)")
    parser.add_argument("--dtype", metavar="NAME", help="what to compute in (default: the best found)")
    parser.add_argument("--edits", choices=get_args(EditKind)[1:], help="ask it for rewrites, by this prompt")
    parser.add_argument("--limit", type=positive, default=8, metavar="N", help="how many lines")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="PROGRAM", help="a llama-server to compare with; repeat for more"
    )
    parser.add_argument("--url", action="append", default=[], help="a running server with llama.cpp's /infill")
    return parser


def measured(
    engine: Engine, tasks: Sequence[InfillingTask], peers: Sequence[LlamaServer], urls: Sequence[str]
) -> dict[str, Any]:
    """Fills the lines; returns the cost here and on the servers, of which `peers` may still be starting."""
    loads_s = [peer.wait() for peer in peers]
    ours = defaultdict[str, float](float)
    theirs = {url: defaultdict[str, float](float) for url in (*(peer.url for peer in peers), *urls)}
    for task in tasks:
        if engine.edits:
            prompt, tokens = _rewritten(engine, engine.edits, task, ours)
            for url, times in theirs.items():
                _written_behind(url, prompt, tokens, times)
            continue
        _of_engine(engine, task, ours)
        for url, times in theirs.items():
            _of_server(url, task, times)
    family = cast("MiddleFamily", engine.loaded.family)
    on_gpu = family.device.type == "cuda"
    machine = torch.cuda.get_device_name() if on_gpu else torch.backends.cpu.get_cpu_capability()
    found: dict[str, Any] = {
        "system_info": f"n_threads = {torch.get_num_threads()} | torch {torch.__version__}: {machine} | {engine.dtype}",
        "lines": len(tasks),
        "ours": _shown(ours) | {"memory_mb": psutil.Process().memory_info().rss >> 20},
        "device_memory_mb": torch.cuda.max_memory_allocated() >> 20 if on_gpu else 0,
        "pass_ms_by_rows": _passes(family, tasks[0]),
        "reads_gb_s": _bandwidth_bytes_s(family.device) / 1e9,
        "peers": [],
    }
    about: dict[str, dict[str, Any]] = {
        peer.url: {"system_info": peer.system_info, "load_s": load_s, "memory_mb": peer.memory_mb}
        for peer, load_s in zip(peers, loads_s, strict=True)
    }
    for url, times in theirs.items():
        both = [what for what in ("cold", "next_key") if times[f"{what}_s"]]
        ratios = {f"{what}_ratio": ours[f"{what}_s"] / times[f"{what}_s"] for what in both}
        found["peers"].append(about.get(url, {"url": url}) | _shown(times) | ratios)
    return found


def _bandwidth_bytes_s(device: torch.device) -> float:
    """How fast a pass reads memory: the best of five sums of half a gigabyte."""
    held = torch.zeros(_BANDWIDTH_BYTES // 8, dtype=torch.long, device=device)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        held.sum().item()  # waits for the device
        times.append(time.perf_counter() - began)
    return _BANDWIDTH_BYTES / min(times)


def _add(times: Times, seconds: float, read: tuple[int, float], written: tuple[int, float], typed: int) -> None:
    """One request, after this many typed characters."""
    times["next_key_s" if typed else "cold_s"] += seconds
    if not typed:
        for name, (tokens, ms) in (("prompt", read), ("output", written)):
            times[name] += tokens
            times[f"{name}_ms"] += ms


def _shown(times: Times) -> dict[str, float]:
    """The seconds, and tokens a second."""
    speeds = {f"{name}_tokens_s": 1000 * times[name] / max(1e-9, times[f"{name}_ms"]) for name in ("prompt", "output")}
    return {name: times[name] for name in ("cold_s", "next_key_s", *_REWRITES) if times[name]} | speeds


def _of_engine(engine: Engine, task: InfillingTask, times: Times) -> None:
    """As in llama.cpp's timings, the pass that reads the prompt's end yields the first token."""
    for typed in (0, _TYPED):
        before = task.before + task.solution[:typed]
        parts = (Text(before), Hole(single_line=True, max_tokens=_MOST_TOKENS), Text(task.after))
        began = time.perf_counter()
        written = 0
        read_s = 0.0
        for event in engine.infill(InfillRequest("passes", parts, seed=1, drafts=True)):
            if isinstance(event, Draft):
                read_s = read_s or time.perf_counter() - began
            elif isinstance(event, Candidate):
                written = written or event.tokens
            elif isinstance(event, Done):
                seconds, stats = time.perf_counter() - began, event.stats
                read = stats.prefix_tokens - stats.reused_tokens
                _add(times, seconds, (read, 1000 * read_s), (written, 1000 * (seconds - read_s)), typed)


def _rewritten(engine: Engine, kind: EditKind, task: InfillingTask, times: Times) -> tuple[str, int]:
    """The lines around the hole, rewritten with their draft and without; the prompt, and how many tokens were written.
    The user has just written what was in the hole.
    """
    vocabulary = engine.loaded.vocabulary
    text, cursor = task.before + task.solution + task.after, len(task.before + task.solution)
    line, start = text.count("\n", 0, cursor), text.rfind("\n", 0, cursor) + 1
    new = text[start : text.find("\n", cursor) + 1]
    change = Hunk(line, text[start : len(task.before)] + text[cursor : start + len(new)], new)
    request = NextEditRequest("passes", text, (change,), path="main.py", cursor=cursor)
    for most, name in ((None, "drafted"), (0, "plain")):
        began = time.perf_counter()
        work = EditRewriting(engine.loaded, kind, request, None, most)
        done = next(event for event in work if isinstance(event, Done))
        seconds, tokens, stats = time.perf_counter() - began, len(vocabulary.encode(work.written)), done.stats
        times[f"{name}_passes"] += work.passes
        times["region_tokens"] += tokens if most is None else 0
        if most is None:
            read = stats.prefix_tokens - stats.reused_tokens
            _add(times, seconds, (read, stats.encode_ms), (tokens, 1000 * seconds - stats.encode_ms), 0)
            times["drafted_output_s"] += seconds - stats.encode_ms / 1000
        else:
            times["plain_output_s"] += seconds - stats.encode_ms / 1000
    prompt = edit_prompts.prompt_for(kind, request)
    return prompt.text if prompt else "", tokens


def _written_behind(server: str, prompt: str, tokens: int, times: Times) -> None:
    began = time.perf_counter()
    asked = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
    answer = httpx2.post(f"{server}/completion", json=asked, timeout=_TIMEOUT_S, trust_env=False).raise_for_status()
    found = answer.json()["timings"]
    read, written = ((found[f"{part}_n"], found[f"{part}_ms"]) for part in ("prompt", "predicted"))
    _add(times, time.perf_counter() - began, read, written, 0)


def _of_server(server: str, task: InfillingTask, times: Times) -> None:
    for typed in (0, _TYPED):
        began = time.perf_counter()
        answer = infilling_tasks.llama_fill(server, task, _MOST_TOKENS, _TIMEOUT_S, typed=typed, cache_prompt=True)
        found = answer["timings"]
        read, written = ((found[f"{part}_n"], found[f"{part}_ms"]) for part in ("prompt", "predicted"))
        _add(times, time.perf_counter() - began, read, written, typed)


def _passes(family: MiddleFamily, task: InfillingTask) -> dict[int, float]:
    """Milliseconds of a pass by its rows, including their logits: the fastest of some."""
    ids = family.tokenizer.encode(task.before[-3000:], add_special_tokens=False).ids
    context = family.open(ids)
    for _ in context.encode():
        pass
    writing = context.continuation(max(_ROWS) + 1)
    writing.feed(torch.empty(1, 0, dtype=torch.long))
    found = {}
    for rows in _ROWS:
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            writing.feed_rows(torch.tensor([ids[:rows]]))[0, -1, 0].item()  # waits for the device
            taken.append(1000 * (time.perf_counter() - began))
            writing.trim(rows)
        found[rows] = min(taken)
    context.close()
    return found


if __name__ == "__main__":
    sys.exit(main())

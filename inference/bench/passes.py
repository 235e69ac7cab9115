"""Measures how fast a fill-in-the-middle model prefills and decodes here, alone or beside llama.cpp.

Fills each line cold, then after the next keystroke, then a new line below it; and by our engine once more as if the
worker had prefilled while the cursor rested there. Our texts are those of automatic requests, which end early; --cut 0
has whole lines, as llama.cpp writes them. It starts each llama.cpp that --peer names (a program, perhaps with
flags) with the same file, and fills in turns, line by line, also with the servers that --url names, such as `infill-ls
serve --http`. Its last line of output is one JSON object; compare ratios, not machines.
"""

import argparse
import shlex
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
from msgspec.structs import replace

from inference.bench import BenchError, add_model_flags, infilling_tasks, load_warm_engine, measure_ms, positive_int
from inference.bench.infilling_tasks import InfillingTask
from inference.bench.server_process import post_to_llama, start_llama_server
from inference.engine.engine import Engine
from inference.messages import Done, Draft, FilledHoles, Hole, InfillRequest, PinnedText
from inference.models import catalogue, devices, registry
from inference.models.family import FimAdapter
from inference.models.llama.precision import LatencyEstimate, PassTimes
from inference.serving.startup import release_memory

_TYPED = 2
_MAX_NEW_TOKENS = 32
_ROWS = (1, 2, 4, 8, 16, 64, 256)
_REPEATS = 5
_TIMEOUT_S = 120
_MIN_PROMPT_CHARS = 1000
_CASES = ("cold", "next_key", "new_line")


@dataclass(frozen=True)
class FillTiming:
    """The tokens and milliseconds of prefill and of decoding for one line."""

    seconds: float
    prompt_tokens: int
    prompt_ms: float
    output_tokens: int
    output_ms: float


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Fills lines here and at the servers. Raises BenchError and ModelError."""
    began = time.perf_counter()
    tasks = [task for task in infilling_tasks.read_tasks(args.tasks) if task.single_line]
    tasks = [task for task in tasks if len(task.prompt) > _MIN_PROMPT_CHARS]
    engine = load_warm_engine(args)
    if not engine.loaded.traits.is_fim or not tasks:
        raise BenchError(f"{args.model} does not fill the middle, or {args.tasks} has no long prompt before a line")
    release_memory()
    load = {"load_s": time.perf_counter() - began, "memory_mb": _memory_mb()}
    tasks = tasks[:: max(1, len(tasks) // args.limit)][: args.limit]
    file = str(registry.open_checkpoint(args.model).config_file)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        peers = []
        for index, command in enumerate(args.peer):
            log = folder / f"{index}.log"
            peers.append(start_llama_server(shlex.split(command), file, log, torch.get_num_threads()))
            stack.callback(peers[-1].stop)
        loads_s = [peer.wait_until_ready() for peer in peers]
        urls = [*(peer.url for peer in peers), *args.url]
        fillers = [partial(_by_engine, engine, args.cut), *(partial(_by_server, url) for url in urls)]
        ours, *theirs = _fill_all(tasks, fillers)
        peers_info = [
            {"command": command, "load_s": load_s, "memory_mb": peer.memory_mb}
            for command, peer, load_s in zip(args.peer, peers, loads_s, strict=True)
        ]
    peers_info += [{"url": url} for url in args.url]
    for figures in theirs:
        figures.update({f"{case}_ratio": ours[f"{case}_s"] / figures[f"{case}_s"] for case in _CASES})
    adapter = engine.loaded.fim_adapter
    on_gpu = adapter.device.type == "cuda"
    processor = torch.cuda.get_device_name() if on_gpu else torch.backends.cpu.get_cpu_capability()
    times, entry = PassTimes(adapter.token_ms, adapter.prompt_token_ms), catalogue.find_entry(adapter.name)
    threads = f"n_threads = {torch.get_num_threads()} | torch {torch.__version__}"
    return load | {
        "system_info": f"{threads}: {adapter.traits.runs_on or processor} | {engine.dtype}",
        "lines": len(tasks),
        "ours": ours | {"rested_s": _rested_s(engine, args.cut, tasks), "memory_mb": _memory_mb()},
        "predicted": vars(LatencyEstimate.from_pass_times(times, entry.parameters if entry else 0)),
        "device_memory_mb": torch.cuda.max_memory_allocated() >> 20 if on_gpu else 0,
        "pass_ms_by_rows": _passes(adapter, tasks[0]),
        "reads_gb_s": 0 if on_gpu else devices.measure_memory_bandwidth() / 1e9,
        "peers": [peer_info | figures for peer_info, figures in zip(peers_info, theirs, strict=True)],
    }


def _fill_all(
    tasks: Sequence[InfillingTask], fillers: Sequence[Callable[[InfillingTask, int], FillTiming]]
) -> list[dict[str, float]]:
    """Fills each line by each filler: cold, after some of it is typed, and the line below it. Returns for each filler
    the mean seconds of each case, and the tokens a second of the cold case.
    """
    timings = defaultdict[tuple[int, str], list[FillTiming]](list)
    for task in tasks:
        cases = {"cold": (task, 0), "next_key": (task, _TYPED), "new_line": (_line_below(task), 0)}
        for index, fill in enumerate(fillers):
            for case in _CASES:
                timings[index, case].append(fill(*cases[case]))
    return [
        {f"{case}_s": statistics.mean(timing.seconds for timing in timings[index, case]) for case in _CASES}
        | _speeds(timings[index, "cold"])
        for index in range(len(fillers))
    ]


def _line_below(task: InfillingTask) -> InfillingTask:
    """The task of the line below, at the same indentation, once this line is filled."""
    line = task.prefix.rpartition("\n")[2] + task.solution
    indent = line[: len(line) - len(line.lstrip())]
    return replace(
        task, prompt=f"{task.prefix}{task.solution}\n{indent}", suffix=task.suffix_text, canonical_solution=""
    )


def _rested_s(engine: Engine, cut: float, tasks: Sequence[InfillingTask]) -> float:
    """The mean seconds of a line whose prompt was prefilled ahead, in text unlike that of any earlier request."""
    timings = []
    for task in tasks:
        moved = replace(task, prompt=f"\n{task.prompt}")
        deque(engine.infill(replace(_request(moved, 0, cut), prefill_only=True)), maxlen=0)
        while engine.run_idle_task():
            pass
        timings.append(_by_engine(engine, cut, moved, 0).seconds)
    return statistics.mean(timings)


def _speeds(times: Sequence[FillTiming]) -> dict[str, float]:
    read_ms = sum(timing.prompt_ms for timing in times)
    written_ms = sum(timing.output_ms for timing in times)
    return {
        "prompt_tokens_s": 1000 * sum(timing.prompt_tokens for timing in times) / max(1e-9, read_ms),
        "output_tokens_s": 1000 * sum(timing.output_tokens for timing in times) / max(1e-9, written_ms),
    }


def _request(task: InfillingTask, typed: int, cut: float) -> InfillRequest:
    hole = Hole(single_line=True, max_tokens=_MAX_NEW_TOKENS)
    parts = PinnedText(task.prefix + task.solution[:typed]), hole, PinnedText(task.suffix_text)
    return InfillRequest("passes", parts, seed=1, drafts=True, quick=cut > 0, min_prob=cut)


def _by_engine(engine: Engine, cut: float, task: InfillingTask, typed: int) -> FillTiming:
    """As in llama.cpp's timings, the pass that reads the prompt's end yields the first token."""
    began = time.perf_counter()
    output_tokens = 0
    prompt_s = 0.0
    for event in engine.infill(_request(task, typed, cut)):
        if isinstance(event, Draft):
            prompt_s = prompt_s or time.perf_counter() - began
        elif isinstance(event, FilledHoles):
            output_tokens = output_tokens or event.tokens
        elif isinstance(event, Done):
            stats = event.stats
    seconds = time.perf_counter() - began
    prompt_tokens = stats.prefix_tokens - stats.reused_tokens
    return FillTiming(seconds, prompt_tokens, 1000 * prompt_s, output_tokens, 1000 * (seconds - prompt_s))


def _by_server(url: str, task: InfillingTask, typed: int) -> FillTiming:
    """The timing that a server reports. Raises BenchError."""
    began = time.perf_counter()
    body = task.llama_infill_body(_MAX_NEW_TOKENS, typed) | {"cache_prompt": True}
    timings = post_to_llama(url, body, _TIMEOUT_S).get("timings")
    seconds = time.perf_counter() - began
    if timings is None:
        raise BenchError(f"{url} tells no timings, as llama.cpp does")
    return FillTiming(
        seconds, timings["prompt_n"], timings["prompt_ms"], timings["predicted_n"], timings["predicted_ms"]
    )


def _passes(adapter: FimAdapter, task: InfillingTask) -> dict[int, float]:
    """Milliseconds of a pass by its rows, including their logits: the fastest of some."""
    ids = adapter.tokenizer.encode(task.prefix[-3000:], add_special_tokens=False).ids
    context = adapter.open_prefix(ids)
    for _ in context.prefill():
        pass
    continuation = context.continuation(max(_ROWS) + 1)
    continuation.decode(torch.empty(1, 0, dtype=torch.long))

    def one_pass(rows: int) -> None:
        continuation.verify(torch.tensor([ids[:rows]]))[0, -1, 0].item()  # waits for the device
        continuation.rollback(rows)

    ms_by_rows = {rows: min(measure_ms(partial(one_pass, rows), _REPEATS)) for rows in _ROWS}
    context.close()
    return ms_by_rows


def _memory_mb() -> int:
    return int(psutil.Process().memory_info().rss) >> 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tasks", type=Path, metavar="FILE", help="tasks in the HumanEval-Infilling format")
    add_model_flags(parser)
    parser.add_argument("--limit", type=positive_int, default=8, metavar="N", help="how many lines")
    parser.add_argument(
        "--cut",
        type=float,
        default=0.47,
        metavar="P",
        help="end our texts behind the first token less likely than this (default: that of balanced; 0: whole lines)",
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a llama-server to compare with, perhaps with flags, such as --cache-reuse 256; repeat for more",
    )
    parser.add_argument("--url", action="append", default=[], help="a running server with llama.cpp's /infill")

"""`infill-ls bench infilling --url U`: the same tasks through a vLLM server and through the engine here, side by side.

The ways to fill: the server; the engine; and the engine without the abilities a server lacks, which are writing from
left to right and ranking by causal likelihood. Each figure has its standard error over the tasks; the last row has that
of the difference between server and engine, task by task. The server gets several tasks concurrently.
"""

import argparse
import asyncio
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.bench import infilling_scores
from inference.bench.infilling_scores import TaskResult
from inference.bench.infilling_solve import SolveOptions, Solver, request_of
from inference.bench.infilling_tasks import InfillingTask
from inference.messages import Candidate, Done, Draft, InfillRequest
from inference.remote.vllm import connect
from inference.serving.infiller import RemoteInfiller
from inference.serving.startup import WorkerArguments

AT_ONE_TIME = 4
_SERVER, _HERE, _CANVAS = "server", "here", "here, canvases alone"
_UNSCORED = "here, canvases alone, ranked without likelihood"

SolveHere = Callable[[InfillingTask, Solver], TaskResult]


def run(
    tasks: Sequence[InfillingTask], solver: Solver, args: argparse.Namespace, solve: SolveHere
) -> dict[str, list[TaskResult]]:
    """The results of each way. `solve` fills a task here. Raises ModelError or RequestError."""
    options = SolveOptions(steps=args.steps, seed=args.seed, quick=args.quick)
    found = {_SERVER: asyncio.run(_served(tasks, args, options))}
    alone = solver.using(replace(options, continuations=False))
    for name, way in ((_HERE, solver.using(options)), (_CANVAS, alone), (_UNSCORED, alone.unscored())):
        found[name] = [solve(task, way) for task in tasks]
    return found


async def _served(tasks: Sequence[InfillingTask], args: argparse.Namespace, options: SolveOptions) -> list[TaskResult]:
    nowhere = Path("bench")
    infiller = await connect(
        WorkerArguments(args.url, socket=nowhere, log=nowhere, server_tokenizer=args.server_tokenizer),
        lambda _share, _what: None,
    )
    places = asyncio.Semaphore(AT_ONE_TIME)
    try:
        return await asyncio.gather(*(_one(task, infiller, options, places) for task in tasks))
    finally:
        await infiller.close()


async def _one(
    task: InfillingTask, infiller: RemoteInfiller, options: SolveOptions, places: asyncio.Semaphore
) -> TaskResult:
    async with places:
        events, ms = await asked(infiller, request_of(task, options))
    best = next((event for event in events if isinstance(event, Candidate)), None)
    passes = next(event.stats.steps for event in events if isinstance(event, Done))
    taken, tokens = (best.steps, best.tokens) if best else (0, 0)
    text = best.texts[0] if best else ""
    return infilling_scores.judged(task, text, ms, steps=taken, passes=passes, tokens=tokens)


async def asked(infiller: RemoteInfiller, request: InfillRequest) -> tuple[list[Draft | Candidate | Done], float]:
    """The server's whole answer, and the milliseconds it took."""
    began, steps = time.perf_counter(), infiller.infill(request)
    try:
        return [event async for event in steps], (time.perf_counter() - began) * 1000
    finally:
        await steps.aclose()


def summary(found: dict[str, list[TaskResult]]) -> dict[str, Any]:
    """Exact match and edit similarity of each way, each with its standard error, and the server's difference
    to here.
    """
    ways: dict[str, Any] = {name: _figures(results) for name, results in found.items()}
    pairs = list(zip(found[_SERVER], found[_HERE], strict=True))
    ways["server - here"] = {
        "exact": _mean([served.exact - here.exact for served, here in pairs]),
        "edit_similarity": _mean([served.edit_similarity - here.edit_similarity for served, here in pairs]),
        "same_fills": sum(served.completion == here.completion for served, here in pairs),
    }
    return {"tasks": len(pairs), "ways": ways}


def _figures(results: Sequence[TaskResult]) -> dict[str, Any]:
    return {
        "exact": _mean([float(each.exact) for each in results]),
        "edit_similarity": _mean([each.edit_similarity for each in results]),
        "mean_tokens": round(statistics.fmean(each.tokens for each in results), 2),
        "p50_passes": statistics.median(each.passes for each in results),
        "p50_ms": round(statistics.median(each.ms for each in results), 1),
    }


def _mean(values: Sequence[float]) -> list[float]:
    """A mean and its standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return [round(statistics.fmean(values), 4), round(error, 4)]


def lines(found: dict[str, Any]) -> list[str]:
    """The summary as a Markdown table."""
    rows = [f"| {found['tasks']} tasks | exact | edit similarity |", "|---|---|---|"]
    for name, figures in found["ways"].items():
        exact, similarity = figures["exact"], figures["edit_similarity"]
        rows.append(f"| {name} | {exact[0]:.1%} ± {exact[1]:.1%} | {similarity[0]:.3f} ± {similarity[1]:.3f} |")
    return rows

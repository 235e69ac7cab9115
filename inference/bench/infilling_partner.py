"""`infill-ls bench infilling --partner U`: the same tasks by diffusion here, by an autoregressive server, and by both.

The ways to fill: diffusion; the partner alone; and draft and refine, where the partner refines diffusion's draft and
the better of the two counts. A conversation sees the draft and is asked again; any other interface fills the hole from
scratch, so the partner's own fill is reused. The partner's is the better one, unless it is empty or adds syntax errors
to its file (Python, after cutting the task). Fills are not fitted any further, unlike in the language server. Each
figure has its standard error over the tasks' files.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import tree_sitter_python
from tree_sitter import Language, Node, Parser

from inference.bench import clustered
from inference.bench.infilling_scores import TaskResult, judged
from inference.bench.infilling_served import asked
from inference.bench.infilling_solve import SolveOptions, Solver, request_of
from inference.bench.infilling_tasks import InfillingTask
from inference.messages import REFINED_STRENGTH, Candidate, Hole, InfillRequest
from inference.remote.partner import connect
from inference.remote.partner.infilling import PartnerInfiller
from inference.serving.startup import WorkerArguments

DIFFUSION, PARTNER, REFINED = "diffusion", "partner", "draft and refine"
SolveHere = Callable[[InfillingTask, Solver], TaskResult]


class PartnerText(NamedTuple):
    """The partner's text, and the milliseconds it took."""

    text: str
    ms: float


class Compared(NamedTuple):
    """The results of each way, in task order, and how often the partner's text was the better one."""

    found: dict[str, list[TaskResult]]
    kind: str
    taken: int


def run(tasks: Iterable[InfillingTask], solver: Solver, args: argparse.Namespace, solve: SolveHere) -> Compared:
    """Fills the tasks, one at a time. `solve` fills one here. Raises ModelError or RequestError."""
    options = SolveOptions(steps=args.steps, seed=args.seed, quick=args.quick)
    return asyncio.run(_compared(tasks, solver.using(options), args, options, solve))


async def _compared(
    tasks: Iterable[InfillingTask], solver: Solver, args: argparse.Namespace, options: SolveOptions, solve: SolveHere
) -> Compared:
    infiller = await _connected(args)
    found: dict[str, list[TaskResult]] = {DIFFUSION: [], PARTNER: [], REFINED: []}
    taken = 0
    try:
        for task in tasks:
            draft = solve(task, solver)
            alone = await _asked(infiller, request_of(task, options))
            other = alone
            if infiller.sees_drafts:
                other = await _asked(infiller, _with_draft(request_of(task, options), _fill_of(task, draft)))
            began = time.perf_counter()
            is_better = _is_better(task, _fill_of(task, draft), other.text)
            ms = draft.ms + other.ms + (time.perf_counter() - began) * 1000
            taken += is_better
            found[DIFFUSION].append(draft)
            found[PARTNER].append(judged(task, alone.text, alone.ms))
            refined = judged(task, other.text, ms) if is_better else msgspec.structs.replace(draft, ms=round(ms, 2))
            found[REFINED].append(refined)
    finally:
        await infiller.close()
    return Compared(found, infiller.partner, taken)


async def _connected(args: argparse.Namespace) -> PartnerInfiller:
    nowhere = Path("bench")
    arguments = WorkerArguments(
        args.partner,
        socket=nowhere,
        log=nowhere,
        server_model=args.partner_model,
        partner=args.partner_kind,
    )
    return await connect(arguments, lambda _share, _what: None)


async def _asked(infiller: PartnerInfiller, request: InfillRequest) -> PartnerText:
    """The partner's first candidate; empty if it gives none."""
    events, ms = await asked(infiller, request)
    best = next((event for event in events if isinstance(event, Candidate)), None)
    return PartnerText(best.texts[0] if best else "", ms)


def _with_draft(request: InfillRequest, draft: str) -> InfillRequest:
    """The same request with the draft in its hole."""
    segments = [
        msgspec.structs.replace(each, text=draft, strength=REFINED_STRENGTH) if isinstance(each, Hole) else each
        for each in request.segments
    ]
    return msgspec.structs.replace(request, segments=tuple(segments))


def _fill_of(task: InfillingTask, result: TaskResult) -> str:
    """The text in the hole, without the pinned line breaks around it."""
    parts = task.parts
    return result.completion[len(parts.leading) : len(result.completion) - len(parts.trailing)]


def _is_better(task: InfillingTask, draft: str, other: str) -> bool:
    """Whether the partner's text replaces the draft: the rule of lsp_server/refine/comparison.py."""
    if not other.strip() or other == draft:
        return False
    of_draft, of_other = (_errors(task.parts.before + text + task.parts.after) for text in (draft, other))
    return of_other <= of_draft


def _errors(text: str) -> int:
    """Syntax errors in a Python text: parts the parser could not read, and tokens it had to add."""
    nodes, count = [Parser(Language(tree_sitter_python.language())).parse(text.encode()).root_node], 0
    while nodes:
        node: Node = nodes.pop()
        count += node.is_error or node.is_missing
        nodes += node.children if node.has_error else []
    return count


def summary(tasks: Sequence[InfillingTask], compared: Compared) -> dict[str, Any]:
    """Exact match and edit similarity of each way, with standard errors over files, and milliseconds."""
    files = [task.file for task in tasks]
    return {
        "tasks": len(tasks),
        "files": len(set(files)),
        "partner_kind": compared.kind,
        "partner_taken": compared.taken,
        "ways": {name: _figures(results, files) for name, results in compared.found.items()},
    }


def _figures(results: Sequence[TaskResult], files: Sequence[str]) -> dict[str, Any]:
    return {
        "exact": clustered.mean([float(each.exact) for each in results], files),
        "edit_similarity": clustered.mean([each.edit_similarity for each in results], files),
        "mean_ms": round(statistics.fmean(each.ms for each in results), 1),
        "p50_ms": round(statistics.median(each.ms for each in results), 1),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The summary as a Markdown table."""
    head = f"| {found['tasks']} tasks of {found['files']} files | exact | edit similarity | ms (median) |"
    rows = [head, "|---|---|---|---|"]
    for name, figures in found["ways"].items():
        exact, similarity = figures["exact"], figures["edit_similarity"]
        shown = f"{exact[0]:.1%} ± {exact[1]:.1%} | {similarity[0]:.3f} ± {similarity[1]:.3f}"
        rows.append(f"| {name} | {shown} | {figures['p50_ms']:.0f} |")
    return rows

"""Measures how well a model fills holes whose text is known. The tasks are in the HumanEval-Infilling format. White
space at the ends of a fill does not count; edit similarity is 1 - Levenshtein distance / the longer length. It prints
one JSON object as its last line.

With --by, transformers or llama.cpp's server fills instead, greedily, after the model's own prompt cut at the hole. It
shows our model a task's pieces of other files as the server does, unless --no-context hides them. With --cut, the fills
are those of automatic requests, which end before their first token with a lower probability.
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import track

from inference.bench import BenchError, add_model_flags, infilling_tasks, load_warm_engine, positive_int
from inference.bench.infilling_tasks import InfillingTask, TaskResult, cut_summary, results_summary
from inference.bench.server_process import post_to_llama
from inference.engine.engine import Engine
from inference.messages import Done, FilledHoles, Hole, HoleKind, InfillRequest, PinnedText
from inference.models.fim_tokens import TABLE

_MAX_NEW_TOKENS = {True: 64, False: 128}
"""The limit of fills by others, by whether they are a single line."""
_TIMEOUT_S = 600
Filler = Callable[[InfillingTask], TaskResult]
"""Fills one task's hole."""


def engine_filler(engine: Engine, *, seed: int = 0, quick: bool = False, context: bool = True) -> Filler:
    """Fills with a loaded model. The filler raises RequestError for a hole that fits no canvas of this checkpoint."""

    def fill(task: InfillingTask) -> TaskResult:
        hole = Hole(HoleKind.LINE if task.single_line else HoleKind.BODY, single_line=task.single_line)
        segments = (PinnedText(task.prefix), hole, PinnedText(task.suffix_text))
        pieces = task.pieces if context else ()
        request = InfillRequest(task.task_id, segments, language="python", context=pieces, seed=seed, quick=quick)
        began = time.perf_counter()
        events = [*engine.infill(request)]
        best = next((event for event in events if isinstance(event, FilledHoles)), FilledHoles("", ("",)))
        stats = next(event.stats for event in events if isinstance(event, Done))
        counts = {"steps": best.steps, "tokens": best.tokens, "passes": stats.steps}
        tokens = {"pieces": best.pieces[0], "probs": best.confidences[0]} if best.pieces else {}
        return TaskResult.from_fill(task, best.texts[0], began, **counts, **tokens, prompt_tokens=stats.prefix_tokens)

    return fill


def transformers_filler(file: Path, dtype: str | None) -> Filler:
    """Fills with Qwen2.5-Coder from a GGUF file, as `generate` runs it. Raises OSError or ValueError."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    checkpoint = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    model: Any = AutoModelForCausalLM.from_pretrained(**checkpoint, dtype=getattr(torch, dtype or "float32"))
    model.eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(**checkpoint)
    fim_tokens = TABLE["qwen2.5-coder"]
    prefix, suffix, middle = tokenizer.convert_tokens_to_ids([fim_tokens.prefix, fim_tokens.suffix, fim_tokens.middle])
    stop_ids = tokenizer.convert_tokens_to_ids(list(fim_tokens.control_tokens))
    greedy = {"do_sample": False, "repetition_penalty": 1.0}  # the published generation_config has 1.1

    def fill(task: InfillingTask) -> TaskResult:
        began = time.perf_counter()
        prefix_ids, suffix_ids = (tokenizer.encode(text) for text in (task.prefix, task.suffix_text))
        ids = torch.tensor([[prefix, *prefix_ids, suffix, *suffix_ids, middle]])
        stop = {"stop_strings": ["\n"], "tokenizer": tokenizer} if task.single_line else {}
        limits = {
            "max_new_tokens": _MAX_NEW_TOKENS[task.single_line],
            "eos_token_id": stop_ids,
            "pad_token_id": stop_ids[0],
        }
        with torch.inference_mode():
            output = model.generate(ids, attention_mask=torch.ones_like(ids), **greedy, **limits, **stop)
        text = tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
        return TaskResult.from_fill(task, str(text), began)

    return fill


def fill_with_llama(url: str, task: InfillingTask) -> TaskResult:
    """Fills with llama.cpp's `/infill`, which chooses the prompt itself. Raises httpx2.HTTPError."""
    began = time.perf_counter()
    answer = post_to_llama(url, task.llama_infill_body(_MAX_NEW_TOKENS[task.single_line]), _TIMEOUT_S)
    return TaskResult.from_fill(task, str(answer["content"]), began)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The figures of all tasks and of each kind, with --cut of each cut. Raises BenchError and ModelError."""
    kinds = defaultdict[str, list[TaskResult]](list)
    tasks = defaultdict[str, list[InfillingTask]](list)
    for task, result in _results(args):
        for kind in {task.kind, "all"} if args.cut else {task.kind}:
            kinds[kind].append(result)
            tasks[kind].append(task)
    if args.cut:
        by_cut = {kind: {cut: cut_summary(tasks[kind], kinds[kind], cut) for cut in args.cut} for kind in kinds}
        return {"model": args.model, "half": args.half, "kinds": by_cut}
    by_kind = {kind: results_summary(results) for kind, results in kinds.items()}
    overall = results_summary([result for results in kinds.values() for result in results])
    for kind, means in (by_kind | {"all": overall}).items():
        print(f"{kind}: {', '.join(f'{name} {value:g}' for name, value in means.items())}")
    return {"data": [file.name for file in args.data], "model": args.model, "by": args.by, **overall, "kinds": by_kind}


def _results(args: argparse.Namespace) -> Iterator[tuple[InfillingTask, TaskResult]]:
    """Yields each task with its fill."""
    tasks = _tasks(args)
    fill = _filler(args)
    file = args.predictions or Path(os.devnull)
    with file.open("wb", buffering=0) as predictions:
        for task in track(tasks, "tasks", console=Console(stderr=True), transient=True):
            result = fill(task)
            predictions.write(msgspec.json.encode(result) + b"\n")
            yield task, result


def _tasks(args: argparse.Namespace) -> list[InfillingTask]:
    """The tasks that the flags choose. Raises BenchError."""
    tasks = [task for file in args.data for task in infilling_tasks.read_tasks(file, args.limit)]
    tasks = [task for task in tasks if not args.half or task.is_in_half(args.half)]
    if not tasks:
        raise BenchError(f"{args.data[0]} has no tasks of the half '{args.half}'")
    return infilling_tasks.sample_tasks(tasks, args.sample, args.seed)


def _filler(args: argparse.Namespace) -> Filler:
    """Raises BenchError and ModelError."""
    if args.by == "transformers":
        return transformers_filler(Path(args.model), args.dtype)
    if args.by:
        return partial(fill_with_llama, args.by)
    return engine_filler(load_warm_engine(args), seed=args.seed, quick=bool(args.cut), context=args.context)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, metavar="FILE", help="the tasks, as JSON lines, plain or gzipped"
    )
    parser.add_argument("--limit", type=positive_int, metavar="N", help="measure only the first N tasks")
    parser.add_argument("--sample", type=positive_int, metavar="N", help="measure only N tasks, chosen by the seed")
    add_model_flags(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample and the sampler (default: 0)")
    parser.add_argument("--no-context", dest="context", action="store_false", help="hide the pieces of other files")
    parser.add_argument(
        "--cut", action="append", type=float, metavar="P", help="end fills before a token below P; repeat to compare"
    )
    parser.add_argument("--half", choices=("tuning", "report"), help="measure only these packages or files")
    parser.add_argument("--by", metavar="transformers|URL", help="who fills instead; a URL: llama.cpp's server")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write every fill, one JSON object a line")

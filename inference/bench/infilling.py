"""How well a checkpoint fills holes with known text.

The tasks are in the HumanEval-Infilling format. White space at the ends of a fill does not count; edit similarity is 1
- Levenshtein distance / the longer length. It prints one JSON object as its last line.

With --by, transformers or llama.cpp's server fills instead, greedily, after the model's own prompt cut at the hole.
With --context, parts of other files stand in the prompt, hole by hole; a run continues from its file of predictions.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import track

from inference.bench import BenchError, add_model, command, infilling_tasks, loaded, positive, run
from inference.bench.context import ARMS, ContextTask, Prompts, compared
from inference.bench.infilling_tasks import InfillingTask, TaskResult, figures, kind_of, llama_fill
from inference.engine import Engine
from inference.messages import Candidate, Done, Hole, HoleKind, InfillRequest, Text
from inference.models.fim_tokens import TABLE

_LINE_TOKENS = 64
_LINES_TOKENS = 128
_TIMEOUT_S = 600
Filler = Callable[[InfillingTask], TaskResult]
"""Fills one task's hole."""


def by_engine(engine: Engine, *, seed: int = 0) -> Filler:
    """Fills with a loaded model. The filler raises RequestError for a hole that fits no canvas of this checkpoint."""

    def fill(task: InfillingTask) -> TaskResult:
        hole = Hole(HoleKind.LINE if task.single_line else HoleKind.BODY, single_line=task.single_line)
        segments = (Text(task.before), hole, Text(task.after))
        request = InfillRequest(task.task_id, segments, language="python", seed=seed)
        began = time.perf_counter()
        best: Candidate | None = None
        passes = 0
        for event in engine.infill(request):
            if isinstance(event, Candidate):
                best = best or event
            elif isinstance(event, Done):
                passes = event.stats.steps
        if best is None:
            return TaskResult.of(task, "", began, passes=passes)
        return TaskResult.of(task, best.texts[0], began, steps=best.steps, passes=passes, tokens=best.tokens)

    return fill


def by_transformers(file: Path, dtype: str | None) -> Filler:
    """Fills with Qwen2.5-Coder from a GGUF file, as `generate` runs it. Raises OSError or ValueError."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    model: Any = AutoModelForCausalLM.from_pretrained(**where, dtype=getattr(torch, dtype or "float32"))
    model.eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(**where)
    known = TABLE["qwen2.5-coder"]
    prefix, suffix, middle = tokenizer.convert_tokens_to_ids([known.prefix, known.suffix, known.middle])
    ends = tokenizer.convert_tokens_to_ids(list(known.controls))
    greedy = {"do_sample": False, "repetition_penalty": 1.0}  # the published generation_config has 1.1

    def fill(task: InfillingTask) -> TaskResult:
        began = time.perf_counter()
        before, after = (tokenizer.encode(text) for text in (task.before, task.after))
        ids = torch.tensor([[prefix, *before, suffix, *after, middle]])
        stop = {"stop_strings": ["\n"], "tokenizer": tokenizer} if task.single_line else {}
        most = {"max_new_tokens": _most_tokens(task), "eos_token_id": ends, "pad_token_id": ends[0]}
        with torch.inference_mode():
            written = model.generate(ids, attention_mask=torch.ones_like(ids), **greedy, **most, **stop)
        return _result(task, str(tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)), began)

    return fill


def by_llama_server(url: str) -> Filler:
    """Fills with llama.cpp's `/infill`, which chooses the prompt itself. The filler raises httpx2.HTTPError."""

    def fill(task: InfillingTask) -> TaskResult:
        began = time.perf_counter()
        return _result(task, str(llama_fill(url.rstrip("/"), task, _most_tokens(task), _TIMEOUT_S)["content"]), began)

    return fill


def _result(task: InfillingTask, text: str, began: float) -> TaskResult:
    """A fill of one line ends at its first line break."""
    return TaskResult.of(task, text.partition("\n")[0] if task.single_line else text, began)


def _most_tokens(task: InfillingTask) -> int:
    return _LINE_TOKENS if task.single_line else _LINES_TOKENS


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The figures of all tasks and of each kind, with --context of each arm. Raises BenchError and ModelError."""
    results = list(_with_context(args) if args.context else _plain(args))
    kinds: dict[str, list[TaskResult]] = {}
    for result in results:
        kinds.setdefault(kind_of(result.task_id), []).append(result)
    if args.context:
        found = {kind: compared(some) for kind, some in kinds.items()}
        return {"model": args.model, "half": args.half, "kinds": found}
    by_kind = {kind: figures(some) for kind, some in kinds.items()}
    overall = figures(results)
    for kind, known in (by_kind | {"all": overall}).items():
        print(f"{kind}: {', '.join(f'{name} {value:g}' for name, value in known.items())}")
    return {"data": args.data.name, "model": args.model, "by": args.by, **overall, "kinds": by_kind}


def _plain(args: argparse.Namespace) -> Iterator[TaskResult]:
    tasks = infilling_tasks.sample(infilling_tasks.read(args.data, args.limit), args.sample, args.seed)
    if args.by == "transformers":
        fill = by_transformers(Path(args.model), args.dtype)
    else:
        fill = by_llama_server(args.by) if args.by else by_engine(loaded(args), seed=args.seed)
    if args.predictions:
        args.predictions.write_bytes(b"")
    for task in track(tasks, "tasks", console=Console(stderr=True), transient=True):
        yield _saved(fill(task), args.predictions)


def _with_context(args: argparse.Namespace) -> Iterator[TaskResult]:
    """Each task with each arm, but for those that a run before this one wrote."""
    known = _known(args.predictions, args.model)
    count = Counter[str]()
    engine = loaded(args)
    prompts = Prompts(engine)
    fill = by_engine(engine)
    for task in infilling_tasks.read_as(ContextTask, args.data):
        if task.half != args.half or count[task.kind] == args.limit:
            continue
        count[task.kind] += 1
        for arm in args.context:
            result = known.get((arm, task.task_id))
            if result is None:
                prompts.show(task, arm)
                filled = fill(task)
                more = {"arm": arm, "model": args.model, "prompt_tokens": prompts.tokens}
                result = _saved(msgspec.structs.replace(filled, **more), args.predictions)
            yield result


def _known(file: Path | None, model: str) -> dict[tuple[str, str], TaskResult]:
    """The fills in a file of predictions, by arm and task. Raises BenchError."""
    try:
        lines = file.read_bytes().splitlines() if file else []
        found = [msgspec.json.decode(line, type=TaskResult) for line in lines]
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise BenchError(f"{file} holds no fills of this benchmark: {error}; name another file") from error
    return {(each.arm, each.task_id): each for each in found if each.model == model}


def _saved(result: TaskResult, file: Path | None) -> TaskResult:
    if file:
        with file.open("ab") as output:
            output.write(msgspec.json.encode(result) + b"\n")
    return result


def argument_parser() -> argparse.ArgumentParser:
    parser = command("infilling", __doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="FILE.jsonl[.gz]", help="the tasks")
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="measure only the first N tasks (with --context: of each kind)"
    )
    parser.add_argument("--sample", type=positive, metavar="N", help="measure only N tasks, chosen by the seed")
    add_model(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample and the sampler (default: 0)")
    parser.add_argument("--context", action="append", choices=ARMS, help="show parts of other files; repeat to compare")
    parser.add_argument("--half", choices=("tuning", "report"), default="report", help="with --context: which packages")
    parser.add_argument("--by", metavar="transformers|URL", help="who fills instead; a URL: llama.cpp's server")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write every fill, one JSON object a line")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return run(argument_parser(), measure, argv)


if __name__ == "__main__":
    sys.exit(main())

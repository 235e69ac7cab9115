"""`infill-ls bench infilling`: how well a checkpoint fills holes with known text.

The tasks are in the HumanEval-Infilling format. White space at the ends of a fill does not count; edit similarity is 1
- Levenshtein distance / the longer length. It prints one JSON object as its last line.

With `--by`, transformers or llama.cpp's server fills instead, greedily, after the model's own prompt cut at the hole.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.progress import track

from inference.bench import context, infilling_tasks, positive
from inference.bench.infilling_tasks import Filler, InfillingTask, TaskError, TaskResult, llama_fill, saved
from inference.engine import Engine, RequestError
from inference.messages import Candidate, Done, Hole, HoleKind, InfillRequest, Text
from inference.models import registry
from inference.models.family import ModelError
from inference.models.fim_tokens import TABLE

_LINE_TOKENS = 64
_LINES_TOKENS = 128
_TIMEOUT_S = 600


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

    kind = getattr(torch, dtype or "float32")
    model: Any = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=kind)
    model.eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    known = TABLE["qwen2.5-coder"]
    prefix, suffix, middle = tokenizer.convert_tokens_to_ids([known.prefix, known.suffix, known.middle])
    ends = tokenizer.convert_tokens_to_ids(list(known.controls))

    def fill(task: InfillingTask) -> TaskResult:
        began = time.perf_counter()
        before, after = (tokenizer.encode(text) for text in (task.before, task.after))
        ids = torch.tensor([[prefix, *before, suffix, *after, middle]])
        with torch.inference_mode():
            written = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=_most_tokens(task),
                do_sample=False,
                repetition_penalty=1.0,  # the published generation_config has 1.1
                eos_token_id=ends,
                pad_token_id=ends[0],
                **({"stop_strings": ["\n"], "tokenizer": tokenizer} if task.single_line else {}),
            )
        return _shown(task, str(tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)), began)

    return fill


def by_llama_server(url: str) -> Filler:
    """Fills with llama.cpp's `/infill`, which chooses the prompt itself. The filler raises httpx2.HTTPError."""

    def fill(task: InfillingTask) -> TaskResult:
        began = time.perf_counter()
        return _shown(task, str(llama_fill(url.rstrip("/"), task, _most_tokens(task), _TIMEOUT_S)["content"]), began)

    return fill


def _shown(task: InfillingTask, text: str, began: float) -> TaskResult:
    """A fill of one line ends at its first line break."""
    return TaskResult.of(task, text.partition("\n")[0] if task.single_line else text, began)


def _most_tokens(task: InfillingTask) -> int:
    return _LINE_TOKENS if task.single_line else _LINES_TOKENS


def main(argv: Sequence[str] | None = None) -> int:
    args = argument_parser().parse_args(argv)
    try:
        if args.context:
            engine = _engine(args)
            context.measure(args, engine, by_engine(engine))
        else:
            print(json.dumps(_measured(args)))
    except (TaskError, ModelError, RequestError, OSError, ValueError, httpx2.HTTPError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    return 0


def _measured(args: argparse.Namespace) -> dict[str, Any]:
    """The figures of one filler; also prints those of each kind in words."""
    tasks = infilling_tasks.sample(infilling_tasks.read(args.data, args.limit), args.sample, args.seed)
    fill = _filler(args)
    shown = track(tasks, "tasks", console=Console(stderr=True), transient=True)
    summary = infilling_tasks.summary(saved(map(fill, shown), args.predictions))
    for kind, figures in (summary["kinds"] | {"all": summary}).items():
        print(
            f"{kind}: {figures['tasks']} tasks, exact {figures['exact']:.1%}, edit similarity "
            f"{figures['edit_similarity']:.3f}, {figures['mean_steps']:.1f} steps, "
            f"{figures['p50_passes']:.0f} passes (median), "
            f"{figures['mean_ms']:.0f} ms (median {figures['p50_ms']:.0f})"
        )
    return {"data": args.data.name, "model": args.model, "by": args.by} | summary


def _filler(args: argparse.Namespace) -> Filler:
    """Who fills. Raises ModelError, or OSError or ValueError if transformers cannot load the model."""
    if args.by == "transformers":
        return by_transformers(Path(args.model), args.dtype)
    if args.by:
        return by_llama_server(args.by)
    return by_engine(_engine(args), seed=args.seed)


def _engine(args: argparse.Namespace) -> Engine:
    engine = Engine(registry.load(args.model, device=args.device, dtype=args.dtype))
    engine.warm_up()  # otherwise the first task's time would include one-time setup
    return engine


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="infill-ls bench infilling", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="FILE.jsonl[.gz]", help="the tasks")
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="measure only the first N tasks (with --context: of each kind)"
    )
    parser.add_argument("--sample", type=positive, metavar="N", help="measure only N tasks, chosen by the seed")
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    parser.add_argument("--device", metavar="NAME", help="where to compute (default: the best device found)")
    parser.add_argument("--dtype", metavar="NAME", help="what to compute in (default: the best found)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample and the sampler (default: 0)")
    context.add_arguments(parser)
    parser.add_argument("--by", metavar="transformers|URL", help="who fills instead; a URL: llama.cpp's server")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write every fill, one JSON object a line")
    return parser


if __name__ == "__main__":
    sys.exit(main())

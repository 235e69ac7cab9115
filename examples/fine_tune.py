"""Teach a model your own code base: `python examples/fine_tune.py MODEL FOLDER OUT`, then set `model` to OUT.

MODEL is a folder of safetensors: a model that fills the middle (such as Qwen2.5-Coder) or a masked-diffusion one. The
holes are those that infill-ls finds in the files of FOLDER; secret files are never read. LoRA adapters learn to fill
them, and are merged into a copy of the model. Needs `pip install peft`. A model of 0.5B parameters takes 8 GB and about
a second a hole on a GPU; on a CPU, use it to try things out.
"""

import argparse
import json
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import IterableDataset
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments, set_seed

from inference.models import checkpoint, fim_tokens, registry
from inference.models.family import ModelError
from inference.models.infill_config import HoleNoise
from lsp_server.holes import body_hole_around, hole_at_cursor, statement_around
from lsp_server.settings.privacy import is_secret
from lsp_server.settings.schema import Settings
from lsp_server.syntax.languages import language_id_of_path, table_of
from lsp_server.syntax.parsing import Source

MAX_FILE_BYTES = 200_000
HOLES_PER_FILE = 8
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
IGNORED = -100
"""A label that costs nothing."""


class Hole(NamedTuple):
    """A place of a file, and what belongs there."""

    before: str
    truth: str
    after: str


class Example(NamedTuple):
    """Token ids, and the numbers of those to learn."""

    ids: list[int]
    learnt: range


def holes_of(path: Path, rng: random.Random) -> Iterator[Hole]:
    """The rest of a line behind some cursors, as infill-ls asks for it, and whole statements and bodies."""
    text, language = path.read_text(encoding="utf-8"), language_id_of_path(path.name)
    for _ in range(HOLES_PER_FILE if text.strip() else 0):
        offset = rng.randrange(len(text))
        if rng.random() < 0.6:
            end = text.find("\n", offset) % (len(text) + 1)
            cut = Source.parse(language, text[:offset] + text[end:], path.as_uri())
            span = hole_at_cursor(cut, offset)
            if span is None or span.end > offset or not text[offset:end].strip():
                continue
            start = span.start
        else:
            source = Source.parse(language, text, path.as_uri())
            span = body_hole_around(source, offset) if rng.random() < 0.3 else None
            span = span or statement_around(source, offset, offset)
            if span is None:
                continue
            start, end = span.start, span.end
        yield Hole(text[:start], text[start:end].rstrip(), text[end:])


def files_in(folder: Path) -> list[Path]:
    """Code that is not secret, hidden or generated in bulk. Raises SystemExit if there is none."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(folder).parts)
        and not is_secret(str(path), Settings())
        and table_of(language_id_of_path(path.name)).grammar
        and path.stat().st_size <= MAX_FILE_BYTES
    ]
    return files or sys.exit(f"{folder} has no code in a language that infill-ls knows")


class Holes(IterableDataset):  # type: ignore[type-arg]
    """Holes of all files without end, in an order that a seed chooses."""

    def __init__(self, files: list[Path], learner: "FillsMiddle | Denoises", seed: int) -> None:
        self._files, self._learner, self._by_chance = files, learner, random.Random(seed)  # noqa: S311 - a sample, not a secret

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        while True:
            for path in self._by_chance.sample(self._files, len(self._files)):
                try:
                    holes = list(holes_of(path, self._by_chance))
                except UnicodeDecodeError:
                    continue
                for hole in holes:
                    ids, learnt = self._learner.example(hole)
                    if learnt:
                        labels = [id_ if index in learnt else IGNORED for index, id_ in enumerate(ids)]
                        yield {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}


class FillsMiddle:
    """Examples and loss for a causal model: its own prompt for a hole, then the fill from the start of the line."""

    def __init__(self, base: checkpoint.Checkpoint, tokenizer: Tokenizer) -> None:
        tokens = fim_tokens.detect_fim_tokens(tokenizer.get_vocab(), base.name)
        if tokens is None:
            raise ModelError(f"{base.name}: its tokenizer has no fill-in-the-middle tokens")
        self._tokens, self._tokenizer, self._stated = tokens, tokenizer, base.infill_config
        self._end = base.config["eos_token_id"]
        self.model: Any = AutoModelForCausalLM.from_pretrained(base.folder, local_files_only=True, use_safetensors=True)

    def example(self, hole: Hole) -> Example:
        before, line = hole.before[: (base := hole.before.rfind("\n") + 1)], hole.before[base:]
        prefix, suffix = before[-3 * self._stated.max_prefix_tokens :], hole.after[: 3 * self._stated.suffix_tokens]
        ids: list[int] = []
        vocabulary = self._tokenizer.get_vocab()
        for is_control, text in self._tokens.prompt_parts(prefix, suffix):
            ids += [vocabulary[text]] * bool(text) if is_control else self._encode(text).ids
        output = self._encode(line + hole.truth)
        forced = sum(end <= len(line) for _, end in output.offsets)
        return Example([*ids, *output.ids, self._end], range(len(ids) + forced, len(ids) + len(output.ids) + 1))

    def _encode(self, text: str) -> Any:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def loss(self, model: Any, ids: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of the tokens to learn, each after those in front of it."""
        return model(input_ids=ids, labels=labels).loss  # type: ignore[no-any-return]


class Denoises:
    """Examples and loss for a masked-diffusion model: some of a hole's tokens are masked, and every row sees all."""

    def __init__(self, base: checkpoint.Checkpoint, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._stated = tokenizer, base.infill_config
        assert base.infill_config.mask_token_id is not None, "checked when the checkpoint was read"
        self._mask_id = base.infill_config.mask_token_id
        config = Qwen2Config(**base.config)
        self.model: Any = Qwen2ForCausalLM.from_pretrained(
            base.folder, config=config, local_files_only=True, use_safetensors=True
        )

    def example(self, hole: Hole) -> Example:
        max_tokens = self._stated.max_prefix_tokens
        prefix = self._encode(hole.before[-4 * max_tokens :])[-max_tokens:]
        inside = self._encode(hole.truth)[: self._stated.canvas_tokens // 2]
        suffix = self._encode(hole.after[: 4 * self._stated.suffix_tokens])
        return Example(prefix + inside + suffix, range(max(1, len(prefix)), len(prefix) + len(inside)))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def loss(self, model: Any, ids: Tensor, labels: Tensor) -> Tensor:
        """LLaDA's bound (https://arxiv.org/abs/2502.09992): the loss of the masked rows, over the share masked."""
        share = 0.2 + 0.8 * torch.rand((), device=ids.device)
        masked = (labels != IGNORED) & (torch.rand(ids.shape, device=ids.device) < share)
        rows = ids.masked_fill(masked, self._mask_id)
        sees_all = torch.zeros(1, 1, ids.shape[1], ids.shape[1], device=ids.device, dtype=model.dtype)
        logits = model(input_ids=rows, attention_mask=sees_all).logits  # (1, W, V)
        if self._stated.shifted_logits:
            logits, masked, labels = logits[:, :-1], masked[:, 1:], labels[:, 1:]
        loss_sum = F.cross_entropy(logits[masked].float(), labels[masked], reduction="sum")
        return loss_sum / share / (labels != IGNORED).sum()


class HoleTrainer(Trainer):
    """transformers' trainer with a learner's loss."""

    learner: FillsMiddle | Denoises

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        loss = self.learner.loss(model, inputs["input_ids"], inputs["labels"])
        return (loss, None) if return_outputs else loss


def fine_tune(args: argparse.Namespace) -> None:
    """Trains and writes the merged model. Raises ModelError."""
    base = registry.open_checkpoint(args.model)
    if base.gguf or base.model_type == "diffusion_gemma":
        raise ModelError(f"{args.model}: give a causal or masked-diffusion model as a folder of safetensors")
    set_seed(args.seed)  # the adapters begin at random
    tokenizer = base.tokenizer()
    learner = (Denoises if base.infill_config.corruption == HoleNoise.MASK else FillsMiddle)(base, tokenizer)
    dtype = learner.model.dtype
    adapters = LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=LAYERS)
    model: Any = get_peft_model(learner.model.float(), adapters)
    settings = TrainingArguments(
        str(args.out / "trainer"),
        max_steps=args.steps,
        learning_rate=args.rate,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=args.holes,
        lr_scheduler_type="cosine",
        warmup_steps=min(20, args.steps // 10),
        logging_steps=max(1, args.steps // 20),
        save_strategy="no",
        report_to=[],
        remove_unused_columns=False,
        label_names=["labels"],
        seed=args.seed,
    )
    holes = Holes(files_in(args.folder), learner, args.seed)
    trainer = HoleTrainer(model, settings, train_dataset=holes)
    trainer.learner = learner
    trainer.model_accepts_loss_kwargs = False  # the loss is a mean already
    trainer.train()
    merged = model.merge_and_unload().to(dtype)
    merged.save_pretrained(args.out)
    shutil.rmtree(args.out / "trainer", ignore_errors=True)
    for file in base.folder.iterdir():  # the tokenizer, and config.json with keys that transformers does not know
        if file.suffix in (".json", ".txt", ".jinja") and not file.name.startswith("model.safetensors"):
            shutil.copy(file, args.out)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder of safetensors, or a hub id that is already here")
    parser.add_argument("folder", type=Path, help="the code to learn from")
    parser.add_argument("out", type=Path, help="where to write the merged model")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--holes", type=int, default=8, help="per step (default: %(default)s)")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--rate", type=float, default=2e-4, help="the learning rate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        fine_tune(args)
    except ModelError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"model": str(args.out.resolve())}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tunes a model that fills the middle to judge next edits, with low-rank adapters of its top layers.

    python -m inference.training.next_edit MODEL LESSONS.jsonl OUT --minutes 60

A lesson is the engine's question after one change (inference/bench/next_edit_lessons.py). Training targets the decisive
answer: which of a place's texts and "leave it" wins by likelihood and likeness, margin included.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.loaded_model import LoadedModel
from inference.engine.next_edit.judging import LIKENESS_NATS, MARGIN
from inference.models import registry
from inference.models.fim.network import FastLayer, Network
from inference.training.next_edit_tree import Lesson, Tree, read, tree_of
from inference.training.optimizer import Optimizer

_MATRICES = ("queries_keys_values", "out", "gate_up", "down")
_ALPHA = 2.0
"""The factor for an adapter's product."""
_WARM_UP_STEPS = 20
_SAVED_EVERY_S = 600
_ROUND = 50
"""Take this many lessons of each sort before rereading the file."""
_LEARNT = 0.02
"""Skip a lesson that costs less than this many nats: its gradients would be negligible."""


class Tuned(nn.Module):
    """A network's layers, the top ones with adapters that start as no change."""

    def __init__(self, network: Network, rank: int, layers: int) -> None:
        super().__init__()
        self._network, self._first = network, len(network.layers) - layers
        self._dtype = network.layers[0].out(torch.zeros(1, network.layers[0].out.shape[1])).dtype
        self.adapters = nn.ParameterDict()
        for number in range(self._first, len(network.layers)):
            for name in _MATRICES:
                wide, inner = getattr(network.layers[number], name).shape
                down = torch.randn(rank, inner) / math.sqrt(inner)
                self.adapters[f"lora_{number}_{name}_down"] = nn.Parameter(down)
                self.adapters[f"lora_{number}_{name}_up"] = nn.Parameter(torch.zeros(wide, rank))

    def forward(self, tree: Tree) -> Tensor:
        """The hidden states (n, d) of a tree's tokens, float32."""
        network = self._network
        hidden = network.embedding.rows(tree.ids)
        turns = _turns(network, tree.depths)
        for number, layer in enumerate(network.layers):
            with torch.set_grad_enabled(torch.is_grad_enabled() and number >= self._first):
                hidden = self._through(layer, number, hidden, turns, tree.mask)
        return functional.rms_norm(hidden, network.norm.shape, network.norm, network.config.rms_norm_eps)

    def _through(self, layer: FastLayer, number: int, hidden: Tensor, turns: Tensor, mask: Tensor) -> Tensor:
        config, count = self._network.config, len(hidden)
        heads, keys = config.num_attention_heads, config.num_key_value_heads
        normed = functional.rms_norm(hidden, layer.norm.shape, layer.norm, config.rms_norm_eps)
        made = self._product(layer, number, "queries_keys_values", normed) + layer.bias
        made = made.view(count, heads + 2 * keys, -1)
        pairs = torch.view_as_complex(made[:, : heads + keys].reshape(count, heads + keys, -1, 2).contiguous())
        turned = torch.view_as_real(pairs * turns).flatten(-2).to(self._dtype).transpose(0, 1)[None]  # (1, H + G, n, D)
        values = made[:, heads + keys :].to(self._dtype).transpose(0, 1)[None]
        seen = [each.repeat_interleave(heads // keys, 1) for each in (turned[:, heads:], values)]
        mixed = functional.scaled_dot_product_attention(turned[:, :heads], seen[0], seen[1], attn_mask=mask)
        mixed = mixed[0].transpose(0, 1).reshape(count, -1).float()
        hidden = hidden + self._product(layer, number, "out", mixed)
        normed = functional.rms_norm(hidden, layer.norm.shape, layer.mlp_norm, config.rms_norm_eps)
        gate, up = self._product(layer, number, "gate_up", normed).chunk(2, -1)
        return hidden + self._product(layer, number, "down", functional.silu(gate) * up)

    def _product(self, layer: FastLayer, number: int, name: str, rows: Tensor) -> Tensor:
        matrix = getattr(layer, name)
        made: Tensor = matrix(rows)
        if number >= self._first:
            down, up = (self.adapters[f"lora_{number}_{name}_{side}"].to(made.dtype) for side in ("down", "up"))
            made = made + _ALPHA * (rows.to(made.dtype) @ down.T) @ up.T
        return made.float()

    def scores(self, tree: Tree) -> list[Tensor]:
        """For each place (1 + texts,): how much better each answer is than leaving it, which is the first, in nats."""
        hidden = self(tree)[tree.rows]
        known = self._network.head(hidden).float().log_softmax(-1)
        found = []
        for place in tree.places:
            same, *changed = (known[rows, targets].sum() for rows, targets in place.texts)
            likeness = [LIKENESS_NATS * each - MARGIN for each in place.likeness]
            scores = [one - same + more for one, more in zip(changed, likeness, strict=True)]
            found.append(torch.stack([same.new_zeros(()), *scores]))
        return found

    def loss(self, tree: Tree) -> Tensor:
        """The cross entropy of the right answers."""
        pairs = zip(self.scores(tree), tree.places, strict=True)
        each = [functional.cross_entropy(scores[None], torch.tensor([place.wanted + 1])) for scores, place in pairs]
        return torch.stack(each).mean()

    def save(self, file: Path) -> None:
        """Writes the adapters, in bfloat16."""
        save_file({name: one.detach().bfloat16() for name, one in self.adapters.items()}, file)

    def restore(self, file: Path) -> None:
        """Reads them back."""
        saved = load_file(file)
        with torch.no_grad():
            for name, one in self.adapters.items():
                one.copy_(saved[name])


def _turns(network: Network, depths: Tensor) -> Tensor:
    """(n, 1, D / 2) complex: the factors for the pairs of queries and keys at these depths."""
    size = network.config.head_size
    angles = depths[:, None].float() / network.config.theta ** (torch.arange(0, size, 2).float() / size)
    return torch.polar(torch.ones_like(angles), angles)[:, None]


def train(tuned: Tuned, trees: Iterator[Tree], args: argparse.Namespace) -> None:
    """Trains for the given time, with a rate that falls to a tenth, and saves now and then."""
    optimizer = Optimizer(dict(tuned.adapters.items()), args.rate, args.rate)
    began = saved = time.monotonic()
    step, mean = 0, None
    while step != args.steps and (share := (time.monotonic() - began) / (60 * args.minutes)) < 1:
        total = 0.0
        for _ in range(args.batch):
            loss = tuned.loss(next(trees)) / args.batch
            total += loss.item()
            if loss.item() * args.batch > _LEARNT:
                loss.backward()  # type: ignore[no-untyped-call]
        step += 1
        warm = min(1.0, step / _WARM_UP_STEPS)
        optimizer.step(warm * (0.1 + 0.9 * (1 - share)))
        mean = total if mean is None else 0.95 * mean + 0.05 * total
        minutes = (time.monotonic() - began) / 60
        print(f"step {step} lessons {step * args.batch} {minutes:.1f} min loss {mean:.4f}", flush=True)
        if time.monotonic() - saved > _SAVED_EVERY_S:
            saved = time.monotonic()
            tuned.save(args.out / f"{step * args.batch:06}.safetensors")
    tuned.save(args.out / "last.safetensors")


def judged(tuned: Tuned, vocabulary: Vocabulary, lessons: Sequence[Lesson]) -> Iterator[Mapping[str, Any]]:
    """The model's scores of each lesson's texts, by place, and the right one."""
    for lesson in lessons:
        with torch.no_grad():
            scores = tuned.scores(tree_of(vocabulary, lesson))
        places = [
            {"wanted": place.wanted, "likeness": place.likeness, "scores": [round(float(one), 3) for one in each[1:]]}
            for place, each in zip(lesson.places, scores, strict=True)
        ]
        yield {"name": lesson.name, "kind": lesson.kind, "made": lesson.made, "left": lesson.left, "places": places}


def _endless(vocabulary: Vocabulary, file: Path, seed: int, most_tokens: int) -> Iterator[Tree]:
    """Alternates lessons that need a change with others. Includes what the file receives meanwhile."""
    chance, seen = random.Random(seed), dict[tuple[str, int], int]()  # noqa: S311
    while True:
        lessons = [one for one in read(file) if not one.is_plain]
        lessons.sort(key=lambda one: (seen.get((one.name, one.made), 0), chance.random()))
        sides = [[one for one in lessons if one.has_wanted == wanted][:_ROUND] for wanted in (True, False)]
        for lesson in (one for pair in zip(*sides, strict=False) for one in pair):
            seen[lesson.name, lesson.made] = seen.get((lesson.name, lesson.made), 0) + 1
            tree = tree_of(vocabulary, lesson.chosen(chance))
            if len(tree.ids) <= most_tokens:
                yield tree


def main(argv: Sequence[str] | None = None) -> int:
    """Trains, or judges; returns the exit status."""
    args = argument_parser().parse_args(argv)
    family = registry.load(args.model, dtype="bfloat16")
    vocabulary = LoadedModel.of(family).vocabulary
    torch.manual_seed(args.seed)
    tuned = Tuned(family.network, args.rank, args.layers)  # type: ignore[attr-defined]
    if args.start:
        tuned.restore(args.start)
    if args.judge:
        for found in judged(tuned, vocabulary, list(read(args.lessons))):
            print(json.dumps(found), flush=True)
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    train(tuned, _endless(vocabulary, args.lessons, args.seed, args.tokens), args)
    return 0


def argument_parser() -> argparse.ArgumentParser:
    """The trainer's flags."""
    parser = argparse.ArgumentParser(prog="python -m inference.training.next_edit", description=__doc__)
    parser.add_argument("model", metavar="MODEL", help="a checkpoint that fills the middle")
    parser.add_argument("lessons", type=Path, metavar="LESSONS.jsonl")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder for adapters")
    parser.add_argument("--judge", action="store_true", help="print what the model makes of the lessons")
    parser.add_argument("--start", type=Path, metavar="FILE", help="adapters to begin with")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="stop earlier, after so many")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--layers", type=int, default=6, help="how many of the top layers (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--batch", type=int, default=8, help="lessons in a step (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=400, help="longer lessons are left out")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())

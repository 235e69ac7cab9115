"""What a small DiffusionGemma makes of texts with masks, for a Qwen2 to learn from: the state of every row, by layer.

Shapes: B texts of L rows, the last of them a canvas; d hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from inference.training import trunk
from inference.training.corpus import SourceFile
from inference.training.tokenizer import MASK

ROWS = 256
_CHARACTERS = 1500
_BEFORE_CHARACTERS = 600
_LEAST_PREFIX, _MOST_PREFIX = 128, 224


@dataclass(frozen=True)
class MaskedTexts:
    """B texts, and from which row on some stretches of them are masked, wholly or in part."""

    clean: Tensor  # (B, L)
    noisy: Tensor  # (B, L)
    prefix_rows: int


class TextSource:
    """Draws texts from training files, every character equally likely to be in one."""

    def __init__(self, tokenizer_file: Path, files: Sequence[SourceFile], seed: int) -> None:
        self._tokenizer, self._seed = Tokenizer.from_file(str(tokenizer_file)), seed
        self._texts = [file.text for file in files if not file.held_out]
        self._ends = np.cumsum([len(text) for text in self._texts])

    def draw(self, step: int, count: int) -> MaskedTexts:
        """The texts of a step: the same for the same seed and step."""
        rng = np.random.default_rng((self._seed, step, 3))
        clean, prefix = np.array([self._ids(rng) for _ in range(count)]), int(rng.integers(_LEAST_PREFIX, _MOST_PREFIX))
        noisy = clean.copy()
        for row in noisy:
            _mask(row, prefix, rng)
        return MaskedTexts(torch.from_numpy(clean), torch.from_numpy(noisy), prefix)

    def _ids(self, rng: np.random.Generator) -> list[int]:
        while True:
            place = int(rng.integers(0, self._ends[-1]))
            number = int(np.searchsorted(self._ends, place, side="right"))
            text = self._texts[number]
            anchor = place - (int(self._ends[number]) - len(text)) - _BEFORE_CHARACTERS
            start = text.rfind("\n", 0, max(0, anchor)) + 1
            ids = self._tokenizer.encode(text[start : start + _CHARACTERS], add_special_tokens=False).ids[:ROWS]
            if len(ids) == ROWS:
                return ids


def _mask(row: np.ndarray[tuple[int], np.dtype[np.int64]], prefix: int, rng: np.random.Generator) -> None:
    at = prefix + int(rng.integers(0, 4))
    while at < ROWS - 4:
        size = int(rng.integers(2, 9)) if rng.random() < 0.7 else int(rng.integers(8, 32))
        level, end = 1.0 if rng.random() < 0.6 else rng.uniform(0.15, 1.0), min(ROWS - 2, at + size)
        row[at:end] = np.where(rng.random(end - at) < level, MASK, row[at:end])
        at = end + int(rng.integers(2, 20))


@dataclass(frozen=True)
class States:
    """The residual stream of texts, and what each norm divides by on average."""

    entered: Tensor  # (B, L, d): before the first layer
    attended: list[Tensor]  # (B, L, d) each: behind attention
    finished: list[Tensor]  # (B, L, d) each: behind the layer
    sizes: dict[str, float]

    @classmethod
    @torch.no_grad()
    def of(cls, source: Any, texts: MaskedTexts) -> "States":
        """One pass of DiffusionGemma: the prefix through its encoder, the rest through its decoder."""
        decoder, inputs = source.model.decoder, dict[str, Tensor]()

        def recording(name: str) -> Any:
            return lambda _module, given, _output: inputs.update({name: given[0]})

        norms = {name: one for name, one in decoder.named_modules() if type(one).__name__.endswith("RMSNorm")}
        hooks = [module.register_forward_hook(recording(name)) for name, module in norms.items()]
        _run(source, texts)
        for hook in hooks:
            hook.remove()
        layers = [f"layers.{number}" for number in range(len(decoder.layers))]
        begun = [inputs[f"{at}.input_layernorm"] for at in layers]
        attended = [inputs[f"{at}.pre_feedforward_layernorm"] for at in layers]
        sizes = {name: float(one.pow(2).mean(-1).sqrt().mean()) for name, one in inputs.items()}
        return cls(begun[0], attended, [*begun[1:], inputs["norm"]], sizes)


def _run(source: Any, texts: MaskedTexts) -> None:
    decoder, (batch, rows) = source.model.decoder, texts.noisy.shape
    prefix, canvas = texts.prefix_rows, rows - texts.prefix_rows
    splits, lengths = torch.full((batch, 1), prefix), torch.full((batch, 1), canvas)
    masks = trunk.visible(splits, lengths, prefix, canvas)
    rope = trunk.rotary(decoder, trunk.positions(splits, prefix, canvas))
    soft = torch.zeros(batch, canvas, decoder.embed_tokens.weight.shape[1])
    ids = texts.noisy[:, :prefix], texts.noisy[:, prefix:]
    trunk.run(source.model, *ids, soft, rope, dict.fromkeys(decoder.text_config.layer_types, masks))

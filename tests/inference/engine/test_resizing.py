"""Holes grow and shrink in the middle of denoising, if a model writes tokens for that.

The family is none of ours: the engine relies on the promises of `ModelAdapter` alone.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from inference.engine.engine import Engine
from inference.messages import Done, Draft, FilledHoles, Hole, InfillRequest, PinnedText
from inference.models.family import ModelTraits
from inference.models.infill_config import HoleNoise, InfillConfig, SamplerSettings
from tests.inference.engine.bigram_family import MASK_ID, BigramContext, BigramFamily

EXPAND, DELETE = MASK_ID + 1, MASK_ID + 2
FIRST, LAST = "abc", "uvwxyz\n"


class ByHeart(BigramFamily):
    """Knows one text, and says by which row a canvas is too short or too long for it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tokenizer.add_special_tokens(["<mask>", "<expand>", "<delete>"])
        self.traits = ModelTraits(HoleNoise.MASK, MASK_ID + 3, can_score=False, can_resize=True)
        sampler = SamplerSettings(max_steps=200, t_max=0.0, t_min=0.0, method="entropy", schedule="single")
        ids = {"expand_token_id": EXPAND, "delete_token_id": DELETE}
        self.infill_config = InfillConfig(HoleNoise.MASK, MASK_ID, canvas_tokens=64, sampler=sampler, **ids)
        self.ids = self.tokenizer.encode(text, add_special_tokens=False).ids

    def open_prefix(self, prefix_ids: Sequence[int]) -> "Remembered":
        self.opened += 1
        return Remembered(self, prefix_ids)


class Remembered(BigramContext):
    """Behind so many tokens of the text."""

    def __init__(self, family: ByHeart, prefix_ids: Sequence[int]) -> None:
        super().__init__(family, prefix_ids)
        self._ids, bos = family.ids, family.tokenizer.token_to_id("<bos>")
        self._before = len(prefix_ids) - (prefix_ids[:1] == (bos,))

    def predict(
        self, ids: Tensor, rows: Tensor, *, valid: Tensor | None = None, feedback: Tensor | None = None
    ) -> Tensor:
        width, text = ids.shape[1], self._ids
        logits, seen = torch.zeros(len(rows), MASK_ID + 3), set[int]()
        for number, row in enumerate(rows.tolist()):
            canvas, place = row // width, row % width
            length = width if valid is None else int(valid[canvas].sum())
            over = self._before + length - len(text) - 1  # <eos>
            right = text[min(self._before + place, len(text) - 1)]
            first = canvas not in seen
            seen.add(canvas)
            token = right if not first or over == 0 else EXPAND if over < 0 else DELETE
            logits[number, token] = 40.0 if first else 20.0
            logits[number, right] += 10.0
        return logits


def fill(middle: str, hole: Hole, **options: Any) -> list[Any]:
    request = InfillRequest("r", (PinnedText(FIRST), hole, PinnedText(LAST)), **{"seed": 1, **options})
    family = ByHeart(FIRST + middle + LAST)
    events = list(Engine(family).infill(request))
    assert family.opened == 0, "every context is closed"
    return events


def texts(events: list[Any]) -> list[str]:
    return [event.texts[0] for event in events if isinstance(event, FilledHoles)]


@pytest.mark.parametrize("length", [1, 2, 5, 6, 9, 17])
def test_a_hole_gets_the_length_that_its_text_has(length: int) -> None:
    middle = "defghijklmnopqrst"[:length]
    events = fill(middle, Hole(max_tokens=20, single_line=True), drafts=True)
    assert texts(events) == [middle]
    drafts = [event for event in events if isinstance(event, Draft)]
    assert drafts[-1].texts == (middle,)
    assert all(draft.step <= draft.max_steps for draft in drafts)
    assert isinstance(events[-1], Done)


def test_no_hole_gets_more_or_fewer_rows_than_it_may_have() -> None:
    long, short = fill("defghijklm", Hole(max_tokens=4)), fill("d", Hole(min_tokens=8, max_tokens=9))
    assert [len(text) for text in texts(long)] == [3], "the fourth row is the token that was healed"
    assert [len(text) for text in texts(short)] == [7]


def test_fewer_steps_than_rows_are_enough() -> None:
    (text,) = texts(fill("defghijkl", Hole(max_tokens=20), max_steps=3))
    assert len(text) > 2


def test_several_canvases_grow_and_shrink_side_by_side() -> None:
    assert set(texts(fill("defghij", Hole(max_tokens=16), candidates=4))) == {"defghij"}


def test_typed_text_is_pinned_and_the_hole_grows() -> None:
    assert texts(fill("defghijkl", Hole(max_tokens=20, starts_with="d"))) == ["defghijkl"]

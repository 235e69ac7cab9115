"""Bundles a loaded model with what every request needs: its tokens as text, and the ones it may write."""

import math
import zlib
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec
import torch

from inference.engine.canvas import prompt
from inference.engine.canvas.batch import ConstraintBuilder
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import InfillRequest
from inference.models.family import FimAdapter, ModelAdapter, ModelTraits
from inference.models.infill_config import InfillConfig

MAX_SHARE_OF_UNIFORM = 0.6
"""The largest `cross_entropy_versus_uniform` of a sound model."""

_CODE = '''import os


def area(width, height):
    """Return the area of a rectangle."""
    return width * height


def main():
    for name in os.listdir("."):
        print(name)


if __name__ == "__main__":
    main()
'''


@torch.inference_mode()
def cross_entropy_versus_uniform(adapter: ModelAdapter, vocabulary: Vocabulary) -> float:
    """Cross-entropy on plain code divided by that of a uniform distribution over the vocabulary; inf if it is NaN."""
    prefix_ids = prompt.build_prompt_frame(vocabulary, adapter.infill_config, InfillRequest("", ())).leading_ids
    prefix_ids = prefix_ids or prompt.tokenise_prefix(vocabulary, adapter.infill_config, "", 1)
    code = vocabulary.encode(_CODE)
    with closing(adapter.open_prefix(())) as context:
        for _ in context.prefill():
            pass
        (logprobs,) = context.log_probabilities([[*prefix_ids, *code]])
    share = -float(logprobs[-len(code) :].mean()) / math.log(adapter.traits.vocabulary_size)
    return share if math.isfinite(share) else math.inf


_UNRELIABLE_SCORES_NOTE = (
    "its encoder predicts plain code no better than random guessing, so candidates are ranked by the canvas alone, "
    "which ranks them worse; the checkpoint may be damaged or converted wrongly: download it again, or choose "
    "another model"
)
_NO_CODE_NOTE = (
    "it predicts plain code no better than random guessing, so its fills will be useless; the checkpoint may be "
    "damaged or converted wrongly: download it again, or choose another model"
)


class RequestSeeds:
    """Seeds of requests: segments get the same fill after every start of the worker, and another if asked again."""

    _MAX_SEGMENTS = 10_000

    def __init__(self) -> None:
        self._times_asked = Counter[int]()

    def seed_for(self, request: InfillRequest) -> int:
        """The request's own seed, or one chosen for its segments."""
        if request.seed is not None:
            return request.seed
        digest = zlib.crc32(msgspec.msgpack.encode(request.segments))
        if len(self._times_asked) > self._MAX_SEGMENTS:
            self._times_asked.clear()
        self._times_asked[digest] += not request.prefill_only
        return (digest + self._times_asked[digest]) % 2**32  # PyTorch's generator for a CPU takes no more bits


@dataclass(frozen=True)
class LoadedModel:
    """A model of any family, its tokens as text, and the tokens its canvases may hold."""

    adapter: ModelAdapter
    infill_config: InfillConfig
    traits: ModelTraits
    """The family's abilities that are in use."""
    vocabulary: Vocabulary
    constraint_builder: ConstraintBuilder
    note: str = ""
    """A message about the model for the user, if there is one."""
    seeds: RequestSeeds = field(default_factory=RequestSeeds)

    @classmethod
    def from_adapter(cls, adapter: ModelAdapter) -> "LoadedModel":
        """Uses the checkpoint's own settings, and no likelihoods if they are worse than guessing."""
        config = adapter.infill_config
        control = (config.mask_token_id, config.expand_token_id, config.delete_token_id)
        ends = cast("FimAdapter", adapter).stop_ids if adapter.traits.is_fim else ()
        vocabulary = Vocabulary(adapter.tokenizer, [*(id_ for id_ in control if id_ is not None), *ends])
        constraints = ConstraintBuilder(vocabulary, config, adapter.traits.vocabulary_size, adapter.device)
        model = cls(adapter, config, adapter.traits, vocabulary, constraints)
        if not adapter.traits.can_score or cross_entropy_versus_uniform(adapter, vocabulary) <= MAX_SHARE_OF_UNIFORM:
            return model
        note = _NO_CODE_NOTE if adapter.traits.is_fim else _UNRELIABLE_SCORES_NOTE
        return replace(model, traits=replace(adapter.traits, can_score=False), note=note)

    @property
    def fim_adapter(self) -> FimAdapter:
        assert self.adapter.traits.is_fim
        return cast("FimAdapter", self.adapter)

    @property
    def is_full_canvas_free(self) -> bool:
        """Whether canvases as wide as the checkpoint was trained on take no more time than narrow ones."""
        return self.traits.free_rows >= self.infill_config.canvas_tokens

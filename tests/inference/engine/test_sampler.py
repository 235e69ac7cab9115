"""Parts of a step, and the stop conditions that a checkpoint adds to the published ones (test_parity.py)."""

import msgspec
import torch

from inference.engine import Engine
from inference.engine.search import denoise
from inference.messages import Hole, Text
from inference.models.properties import SamplerSettings
from tests.inference.engine.filling import Answer, fill
from tests.inference.loaded import using

NEVER_SURE = SamplerSettings(max_steps=20, entropy_bound=1.0, stability=1, confidence=0.0)
SEGMENTS = (Text("import os\n\n\ndef size(path):\n    ret"), Hole(min_tokens=4, max_tokens=4), Text("\n\n\nx = 1\n"))


def test_rows_that_are_not_there_are_never_accepted() -> None:
    accepted = denoise.accept(torch.tensor([[0.1, float("inf")], [0.2, 0.1]]), 10.0, torch.tensor([2.0, 2.0]))
    assert accepted.tolist() == [[True, False], [True, True]]


def test_the_floor_accepts_more_than_the_bound_allows() -> None:
    entropies = torch.tensor([[3.0, 1.0, 2.0, 4.0]])
    assert int(denoise.accept(entropies, 0.1).sum()) == 1
    assert denoise.accept(entropies, 0.1, torch.tensor([3.0])).tolist() == [[True, True, True, False]]


def test_confidence_is_the_mean_or_sum_over_rows_there() -> None:
    entropies, counts = torch.tensor([[0.1, float("inf")], [0.1, 0.5]]), torch.tensor([1, 2])
    for settings in (SamplerSettings(confidence=0.2), SamplerSettings(confidence=0.0, total_entropy=0.5)):
        assert denoise.confident(entropies, counts, settings).tolist() == [True, False]


def filled(engine: Engine, settings: SamplerSettings) -> Answer:
    other = using(engine, sampler=settings, line_steps=None)
    return fill(other, *SEGMENTS, drafts=True, seed=1)


def test_a_canvas_is_done_when_its_answer_stands_still(twin: Engine) -> None:
    run = filled(twin, msgspec.structs.replace(NEVER_SURE, still_steps=2))
    every = [draft.texts[0] for draft in filled(twin, NEVER_SURE).drafts]
    still = next(at for at in range(2, len(every)) if every[at - 2] == every[at - 1] == every[at])
    assert run.candidates[0].steps == still + 1 < NEVER_SURE.max_steps
    assert run.drafts[still].texts[0] == every[still]


def test_a_canvas_is_done_when_little_entropy_is_left_in_all(twin: Engine) -> None:
    """The sum over a line's few rows; of their mean the published rule asks the same as over a whole canvas."""
    assert filled(twin, msgspec.structs.replace(NEVER_SURE, stability=0, total_entropy=1e6)).candidates[0].steps == 1


def test_a_line_takes_fewer_steps_where_the_checkpoint_says_so(twin: Engine) -> None:
    limited = using(twin, sampler=NEVER_SURE, line_steps=3)
    (text, _, rest), steps = SEGMENTS, []
    for single_line in (True, False):
        hole = Hole(min_tokens=4, max_tokens=4, single_line=single_line)
        steps += [one.steps for one in fill(limited, text, hole, rest, seed=1).candidates]
    assert steps == [3, NEVER_SURE.max_steps]

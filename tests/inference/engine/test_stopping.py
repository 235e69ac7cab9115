"""The stop conditions of a canvas: the checkpoint's settings, in addition to the published ones."""

import msgspec

from inference.engine import Engine
from inference.messages import Hole, Text
from inference.models.properties import SamplerSettings
from tests.inference.engine.filling import Answer, fill
from tests.inference.loaded import using

NEVER_SURE = SamplerSettings(max_steps=20, entropy_bound=1.0, stability=1, confidence=0.0)
SEGMENTS = (Text("import os\n\n\ndef size(path):\n    ret"), Hole(min_tokens=4, max_tokens=4), Text("\n\n\nx = 1\n"))


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

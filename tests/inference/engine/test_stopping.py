"""The stop conditions of a canvas: the checkpoint's settings, in addition to the published ones."""

from dataclasses import dataclass

import msgspec

from inference.engine import Engine
from inference.messages import Candidate, Draft, Hole, InfillRequest, Text
from inference.models.properties import SamplerSettings

NEVER_SURE = SamplerSettings(max_steps=20, entropy_bound=1.0, stability=1, confidence=0.0)
SEGMENTS = (Text("import os\n\n\ndef size(path):\n    ret"), Hole(min_tokens=4, max_tokens=4), Text("\n\n\nx = 1\n"))


@dataclass(frozen=True)
class Run:
    """The last candidate's steps, and its text after each step."""

    steps: int
    texts: list[str]


def filled(engine: Engine, settings: SamplerSettings) -> Run:
    other = engine.using(msgspec.structs.replace(engine.loaded.properties, sampler=settings, line_steps=None))
    events = list(other.infill(InfillRequest("r", SEGMENTS, drafts=True, seed=1)))
    (candidate,) = (event for event in events if isinstance(event, Candidate))
    return Run(candidate.steps, ["".join(event.texts[0]) for event in events if isinstance(event, Draft)])


def test_without_other_settings_an_unsure_canvas_takes_all_steps(twin: Engine) -> None:
    assert filled(twin, NEVER_SURE).steps == NEVER_SURE.max_steps


def test_a_canvas_is_done_when_its_answer_stands_still(twin: Engine) -> None:
    run = filled(twin, msgspec.structs.replace(NEVER_SURE, still_steps=2))
    every = filled(twin, NEVER_SURE).texts
    still = next(at for at in range(2, len(every)) if every[at - 2] == every[at - 1] == every[at])
    assert run.steps == still + 1 < NEVER_SURE.max_steps
    assert run.texts[still] == every[still]


def test_a_canvas_is_done_when_little_entropy_is_left_in_all(twin: Engine) -> None:
    """The sum over a line's few rows; of their mean the published rule asks the same as over a whole canvas."""
    assert filled(twin, msgspec.structs.replace(NEVER_SURE, stability=0, total_entropy=1e6)).steps == 1


def test_a_line_takes_fewer_steps_where_the_checkpoint_says_so(twin: Engine) -> None:
    properties = msgspec.structs.replace(twin.loaded.properties, sampler=NEVER_SURE, line_steps=3)
    (text, _, rest), steps = SEGMENTS, []
    for single_line in (True, False):
        hole = Hole(min_tokens=4, max_tokens=4, single_line=single_line)
        run = twin.using(properties).infill(InfillRequest("r", (text, hole, rest), seed=1))
        steps += [event.steps for event in run if isinstance(event, Candidate)]
    assert steps == [3, NEVER_SURE.max_steps]

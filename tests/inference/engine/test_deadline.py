"""A request that is late gets its answer within a few steps, however long the text before its hole is."""

import time
from contextlib import closing

from inference.engine import Engine
from inference.messages import Candidate, Done, Hole, InfillRequest, Outcome, Snippet, Text
from tests.inference.loaded import check_nothing_is_open

LONG = "".join(f"value_{number} = {number}\n" for number in range(4_000))
"""More than the 8,192 tokens of a prefix, which take 16 steps."""
DEADLINE_S = 0.3
"""Time for the first steps only."""
MOST_STEPS_LATE = 8
"""To read a short prefix, to write a line in one step, to rank it, and to tell."""


def asked(title: str, **options: object) -> InfillRequest:
    segments = (Text(f"# {title}\n{LONG}x ="), Hole(single_line=True), Text("\nprint(x)\n"))
    return InfillRequest("r", segments, path="long.py", max_steps=8, seed=1, **options)  # type: ignore[arg-type]


def late(engine: Engine, request: InfillRequest, deadline_s: float) -> tuple[int, Done]:
    """How many steps a request takes once it is late, and how it ends. It must have an answer."""
    deadline = time.monotonic() + deadline_s
    with closing(engine.infill(request, deadline=deadline)) as work:
        while time.monotonic() < deadline:
            assert next(work) is None
        events = list(work)
    *_, candidate, done = events
    assert isinstance(candidate, Candidate)
    assert candidate.texts[0]
    assert isinstance(done, Done)
    assert done.outcome is Outcome.DEADLINE
    check_nothing_is_open(engine)
    return len(events), done


def test_a_request_that_is_late_while_its_prefix_is_read_is_answered_with_a_short_one(twin: Engine) -> None:
    steps, done = late(twin, asked("late"), DEADLINE_S)
    assert steps <= MOST_STEPS_LATE
    read = done.stats.prefix_tokens
    _, again = late(twin, asked("late"), DEADLINE_S)
    assert again.stats.reused_tokens >= 512  # what was read of the whole prefix
    assert again.stats.prefix_tokens >= read


def test_neither_other_files_nor_instructions_make_a_late_answer_later(twin: Engine) -> None:
    snippets = tuple(Snippet(f"{number}.py", LONG[:2_000]) for number in range(20))
    for instruction in ("", "Write clear code. ", "Write clear code. " * 400):
        steps, _ = late(twin, asked("more" + instruction, context=snippets, instruction=instruction), 0)
        assert steps <= MOST_STEPS_LATE

"""A late request gets its answer within a few steps, however long the text before its hole."""

from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.deadline import Deadline
from inference.engine.diffusion_run import DiffusionEvent
from inference.engine.engine import Engine
from inference.engine.errors import RequestError
from inference.messages import Done, Draft, FilledHoles, Hole, HoleKind, InfillRequest, Outcome, PinnedText, Snippet
from inference.models import registry
from tests.inference.engine.filling import request
from tests.inference.loaded import check_nothing_is_open, using

LONG = "".join(f"value_{number} = {number}\n" for number in range(4_000))
"""More than the 8,192 tokens of a prefix, which take 16 steps."""
MOST_STEPS_LATE = 8
"""To read a short prefix, to write a line in one step, to rank it, and to tell."""


def asked(title: str, **options: object) -> InfillRequest:
    segments = (PinnedText(f"# {title}\n{LONG}x ="), Hole(single_line=True), PinnedText("\nprint(x)\n"))
    return InfillRequest("r", segments, path="long.py", max_steps=8, seed=1, **options)  # type: ignore[arg-type]


def late(engine: Engine, request: InfillRequest, after: int) -> tuple[int, Done]:
    """How many more steps a request takes if it is late after so many, and how it ends. It must have an answer."""
    deadline = Deadline(60_000)
    with closing(engine.infill(request, deadline=deadline)) as work:
        assert [next(work) for _ in range(after)] == [None] * after
        object.__setattr__(deadline, "timeout_ms", 0)
        events = list(work)
    *_, candidate, done = events
    assert isinstance(candidate, FilledHoles)
    assert candidate.texts[0]
    assert done.outcome is Outcome.DEADLINE
    check_nothing_is_open(engine)
    return len(events), done


def test_late_prefix_is_cut_short(twin: Engine) -> None:
    steps, done = late(twin, asked("late"), 2)
    assert steps <= MOST_STEPS_LATE
    read = done.stats.prefix_tokens
    _, again = late(twin, asked("late"), 2)
    assert again.stats.reused_tokens >= 512  # what was read of the whole prefix
    assert again.stats.prefix_tokens >= read


def test_other_files_and_instructions_do_not_delay(twin: Engine) -> None:
    snippets = tuple(Snippet(f"{number}.py", LONG[:2_000]) for number in range(20))
    for instruction in ("", "Write clear code. ", "Write clear code. " * 400):
        steps, _ = late(twin, asked("more" + instruction, context=snippets, instruction=instruction), 0)
        assert steps <= MOST_STEPS_LATE


@pytest.fixture(scope="module")
def masked() -> Engine:
    """Its answers are ranked in several passes, and its prefix is read in one, for every row sees every row."""
    return Engine(registry.load_model(str(Path(__file__).parents[2] / "data" / "masked"), device="cpu"))


RANKED = InfillRequest(
    "r", (PinnedText("x = "), Hole(single_line=True), PinnedText("\n")), drafts=True, max_steps=4, seed=1
)


def steps_until_ranked(engine: Engine) -> int:
    """How many steps are made until the first pass that ranks, and that pass. What is ranked is the last draft."""
    events = list(engine.infill(RANKED))
    *_, denoised, _ = (number for number, event in enumerate(events) if isinstance(event, Draft))
    assert [event is None for event in events[denoised + 1 : denoised + 7]] == [True] * 6
    return denoised + 2


def test_ranking_takes_a_single_pass_more_once_it_is_late(masked: Engine) -> None:
    first = steps_until_ranked(masked)
    deadline = Deadline(60_000)
    work = masked.infill(RANKED, deadline=deadline)
    list(islice(work, first))
    object.__setattr__(deadline, "timeout_ms", 0)
    rest = list(work)
    assert rest[-1].outcome is Outcome.DEADLINE
    assert passes(rest) <= 1


def passes(events: Sequence[DiffusionEvent | None]) -> int:
    """How many steps had nothing to report."""
    return sum(event is None for event in events)


def test_a_prefix_read_in_one_piece_is_short_if_late(masked: Engine) -> None:
    limits = ((0.0, 2_048, 1, 512), (None, 2_048, 1_024, 2_048), (0.1, 8_192, 1, 512), (600.0, 2_048, 1_024, 2_048))
    for limit_s, longest, least, most in limits:
        engine = using(masked, max_prefix_tokens=longest)
        deadline = None if limit_s is None else Deadline(1000 * limit_s)
        *_, done = engine.infill(asked("masked"), deadline=deadline)
        assert least <= done.stats.prefix_tokens <= most, limit_s


def test_a_step_is_a_pass(masked: Engine) -> None:
    """A hole of a given length is not asked where it ends, and a single answer is not ranked."""
    hole = Hole(min_tokens=1, max_tokens=1, single_line=True)
    *_, done = masked.infill(InfillRequest("r", (PinnedText("x = "), hole, PinnedText("\n")), seed=1))
    assert done.stats.steps == 1


MOST_STEPS = 3_000
"""Of the largest request that `any_request` makes."""
any_text = st.sampled_from(
    ["", "x", "bar", "foo(", "\n", "\n    return", "é", "-" * 80, "# a\n", "\t😀\u2028\r\x0b\x00'\""]
)
any_hole = st.builds(
    Hole,
    st.sampled_from(HoleKind),
    st.sampled_from([1, 3]),
    st.sampled_from([0, 1, 3, 6]),
    any_text,
    st.booleans(),
    st.one_of(any_text, st.tuples(any_text, any_text).map("".join)),
    st.sampled_from([0.0, 0.1, 0.4, 1.0]),
)
any_request = st.builds(
    InfillRequest,
    st.just("r"),
    st.lists(st.one_of(any_text.map(PinnedText), any_hole), min_size=1, max_size=4).map(tuple),
    candidates=st.sampled_from([1, 3]),
    max_steps=st.sampled_from([None, 4]),
    seed=st.just(1),
    quick=st.booleans(),
    drafts=st.booleans(),
)


@pytest.mark.parametrize("model", ["middle", "embedded", "released"])
@given(asked=any_request, is_late=st.booleans())
def test_any_request_ends_and_keeps_what_is_given(
    request: pytest.FixtureRequest, model: str, asked: InfillRequest, is_late: bool
) -> None:
    """Or is refused, as one that contradicts itself or is too large for a canvas."""
    engine: Engine = request.getfixturevalue(model)
    given_holes = [segment for segment in asked.segments if isinstance(segment, Hole)]
    with suppress(RequestError), closing(engine.infill(asked, deadline=Deadline(0) if is_late else None)) as work:
        event = None
        for step, event in enumerate(work):
            assert step < MOST_STEPS
            if isinstance(event, FilledHoles):
                for number, (text, hole) in enumerate(zip(event.texts, given_holes, strict=True)):
                    if number not in event.unfilled:
                        assert text.startswith(hole.starts_with)
                        assert hole.strength or text == hole.text
                        is_line = hole.single_line and hole.strength == 1.0
                        assert not is_line or not {"\n", "\r"} & set(text.removeprefix(hole.starts_with))
        assert isinstance(event, Done)


def test_a_start_beyond_the_room_is_kept(embedded: Engine, middle: Engine) -> None:
    for engine in (embedded, middle):
        *_, candidate, done = engine.infill(request("x = ", Hole(starts_with="bar", max_tokens=1), "\n", seed=1))
        assert isinstance(candidate, FilledHoles)
        assert candidate.texts[0].startswith("bar")
        assert done.outcome is Outcome.COMPLETE

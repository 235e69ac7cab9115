"""Which lengths are tried."""

from hypothesis import given
from hypothesis import strategies as st

from inference.engine.canvas.layout import Slots
from inference.engine.search import length

HOLES = st.builds(
    lambda low, more: Slots(maximum=low + more, minimum=low), low=st.integers(1, 20), more=st.integers(0, 60)
)


def test_a_hole_ends_where_slack_becomes_likelier_than_not() -> None:
    curve = [0.0, 0.01, 0.1, 0.4, 0.6, 0.9, 0.99, 1.0]
    assert length.from_slack([curve], [Slots(8)], 1) == [(4,)]
    assert length.from_slack([curve], [Slots(8)], 3) == [(4,), (3,), (5,)]


def test_a_curve_that_never_rises_takes_the_whole_hole() -> None:
    assert length.from_slack([[0.0] * 8], [Slots(8)], 3) == [(8,)]


@given(holes=st.lists(HOLES, min_size=1, max_size=3), count=st.integers(1, 8), data=st.data())
def test_lengths_keep_within_the_limits_of_every_hole(holes: list[Slots], count: int, data: st.DataObject) -> None:
    curves = [data.draw(st.lists(st.floats(0, 1), min_size=h.maximum, max_size=h.maximum)) for h in holes]
    for choices in (length.from_slack(curves, holes, count), length.from_grid(holes, count)):
        assert 1 <= len(choices) <= count
        assert len(set(choices)) == len(choices)
        for choice in choices:
            assert all(hole.minimum <= size <= hole.maximum for hole, size in zip(holes, choice, strict=True))


def test_of_holes_of_several_lines_fewer_lengths_are_tried() -> None:
    """The likelihood prefers the shortest of them, whatever is right."""
    line, block = Slots(24, single_line=True), Slots(64)
    assert length.worth_trying([line, line], 10) == 10
    assert length.worth_trying([line, block], 10) == length.worth_trying([block], 10) == 3
    assert length.worth_trying([block], 2) == 2


def test_the_usual_length_is_that_of_a_line_or_of_some_and_within_the_limits() -> None:
    holes = [Slots(24, single_line=True), Slots(64), Slots(4, single_line=True), Slots(24, minimum=20), Slots(0, 0)]
    assert length.usual(holes) == (6, 40, 4, 20, 0)


def test_a_grid_spans_the_hole() -> None:
    choices = length.from_grid([Slots(24)], 5)
    assert choices[0] == (1,)
    assert choices[-1] == (24,)

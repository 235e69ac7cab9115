"""The end of a hole: one pass over too many masked rows shows where the following text would begin."""

import math

import pytest

from inference.engine import Engine
from inference.engine.search import rank
from inference.messages import Hole, Text
from tests.inference.engine.bigram_family import BigramFamily
from tests.inference.loaded import planned


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(BigramFamily("x = area(width, height)\n" * 20))


def found(engine: Engine, *segments: Text | Hole) -> list[float]:
    plan = planned(engine, *segments)
    with_context = engine.loaded.family.open(plan.prefix_ids)
    chances = rank.end_chances(engine.loaded, with_context, plan)
    with_context.close()
    return chances


def test_every_length_that_a_hole_may_have_gets_its_share(engine: Engine) -> None:
    chances = found(engine, Text("x = area(wi"), Hole(single_line=True, max_tokens=6), Text(", height)\n"))
    assert len(chances) == 7
    assert sum(map(math.exp, chances)) == pytest.approx(1)


def test_what_follows_begins_where_it_is_likely(engine: Engine) -> None:
    """Behind an `a` stands `(` or `r`, never the end of a line; of the rows after it these counts know nothing."""
    hole = Hole(single_line=True, max_tokens=6)
    likely, unlikely = (found(engine, Text("x = ar"), hole, Text(text)) for text in ("(", "\n"))
    assert likely[0] == max(likely) > max(likely[1:])
    assert unlikely[0] == min(unlikely) < min(unlikely[1:])


def test_nothing_is_asked_where_nothing_is_open(engine: Engine) -> None:
    assert found(engine, Text("x = a"), Hole(min_tokens=3, max_tokens=3), Text("\n")) == []
    assert found(engine, Text("x = "), Hole(max_tokens=4), Text(" + "), Hole(max_tokens=4), Text("\n")) == []

"""The engine relies only on the promises of `Family`, and knows no implementation."""

import pytest

from inference.engine import Engine
from inference.messages import Hole
from tests.inference.engine import filling
from tests.inference.engine.bigram_family import BigramFamily
from tests.inference.engine.filling import Answer

ALPHABET = "abcdefghijklmnopqrstuvwxyz\n"


@pytest.fixture(scope="module")
def family() -> BigramFamily:
    return BigramFamily(ALPHABET * 20)


def fill(family: BigramFamily, *segments: str | Hole, **options: object) -> Answer:
    answer = filling.fill(Engine(family), *segments, seed=1, **options)
    assert family.opened == 0, "every context is closed"
    return answer


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_hole_of_known_length_is_filled_from_both_sides(family: BigramFamily, length: int) -> None:
    hole = Hole(min_tokens=length + 1, max_tokens=length + 1)  # one more for the token that is healed
    assert fill(family, "abc", hole, ALPHABET[3 + length :]).text == ALPHABET[3 : 3 + length]


def test_the_surest_of_several_lengths_comes_first(family: BigramFamily) -> None:
    """It has no likelihood to rank by, so what it was surest of counts; only one length joins both sides."""
    found = fill(family, "abc", Hole(max_tokens=5, single_line=True), "ghijkl\n", candidates=4).candidates
    assert found[0].texts == ("def",)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_pins_drafts_and_several_holes_hold(family: BigramFamily) -> None:
    segments = ("abc", Hole(starts_with="d", max_tokens=5), "hi", Hole(max_tokens=5), "mno\n")
    answer = fill(family, *segments, drafts=True)
    assert answer.drafts[-1].texts == answer.candidates[0].texts
    assert all(draft.texts[0].startswith("d") for draft in answer.drafts)
    assert answer.done.stats.reused_tokens == 0

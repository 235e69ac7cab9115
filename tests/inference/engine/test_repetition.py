"""Fills that repeat themselves are never offered; true code seldom looks like one."""

from pathlib import Path

import pytest

from inference.bench import infilling_tasks
from inference.engine.canvas import repetition, results
from inference.engine.canvas.results import FilledCanvas, RankedFill
from inference.messages import Hole

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    "text",
    [
        'if url.host == "" else else else else',
        "self.imageimageimageimage",
        'return repo, "//////////////path"',
        "a = 1\n    x.append(a)\n    x.append(a)\n    x.append(a)\n",
        "# the total of all that was paid and is still to be paid " * 5,
        "try:\n    x = load()\nexcept OSError:\n    x = None\nprint(x)\n" * 5,
    ],
)
def test_what_is_said_again_and_again_is_found(text: str) -> None:
    assert repetition.is_repetitive(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0, 0, 0, 0, 0",
        "}\n}\n}\n}",
        '"""' * 2,
        "      end\n    end\n  end",
        "VALUES (%s, %s, %s, %s, %s)",
        "</div></div></div></div>",
        r"b'\x00\x00\x00\x00\x00'",
        "'AAAAAAAAAAAA'",
    ],
)
def test_what_code_may_repeat_is_not(text: str) -> None:
    assert not repetition.is_repetitive(text)


@pytest.mark.parametrize("name", ["tuning.jsonl.gz", "tuning_packages.jsonl.gz"])
def test_no_true_fill_is_taken_for_one(name: str) -> None:
    solutions = [task.canonical_solution for task in infilling_tasks.read_tasks(DATA / name)]
    assert len(solutions) >= 200
    assert not list(filter(repetition.is_repetitive, solutions))


def _offered(texts: list[list[str]], holes: list[Hole]) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """What is offered with these texts for the first holes, one hole to a canvas."""
    canvas, sure = FilledCanvas([], [], [], 1), (((), ()),)
    fills = {
        index: [RankedFill((text,), 0.0, 1, 0, canvas, sure) for text in of_hole] for index, of_hole in enumerate(texts)
    }
    found = results.combine_canvas_fills("r", fills, holes, 3, 0.0, complete=True)
    return [(candidate.texts, candidate.unfilled) for candidate in found]


JUNK = "else else else else else"


def test_answers_that_repeat_themselves_are_left_out() -> None:
    assert _offered([[JUNK, "a", "b"]], [Hole()]) == [(("a",), ()), (("b",), ())]
    assert _offered([[JUNK]], [Hole()]) == []


def test_unfilled_hole_stays_beside_a_filled_one() -> None:
    texts = [[JUNK], ["a", "b"]]
    holes = [Hole(text="old", strength=0.5), Hole(), Hole(starts_with="typed")]
    assert _offered(texts, holes) == [(("old", "a", "typed"), (0, 2)), (("old", "b", "typed"), (0, 2))]


def test_what_the_user_wrote_so_may_stay_so() -> None:
    assert _offered([[JUNK]], [Hole(text=JUNK + " x", strength=0.2)]) == [((JUNK,), ())]

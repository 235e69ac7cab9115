"""MLX writes the same tokens as torch from the same noise, for every kind of engine request."""

import pytest

from inference.engine.engine import Engine
from inference.messages import Hole, PinnedText, Snippet
from inference.models import registry
from tests.inference.engine.filling import Answer, fill

SOURCE, REST = "def area(width, height):\n    return ", "\n\n\nprint(area(2, 3))\n"
LINE = Hole(single_line=True, max_tokens=12)
BLOCK = Hole(min_tokens=6, max_tokens=10)
TASKS = {
    "a line": (PinnedText(SOURCE), LINE, PinnedText(REST)),
    "a line at the start of a file": (LINE, PinnedText("\nprint(x)\n")),
    "several lines": (PinnedText("def f(x):\n    if x:\n"), BLOCK, PinnedText("\n    return x\n")),
    "two holes": (PinnedText("a = "), LINE, PinnedText("\nb = a + "), BLOCK, PinnedText("\n")),
    "reworked": (PinnedText(SOURCE), Hole(text="width + height", strength=0.6), PinnedText(REST)),
    "with what the user typed": (PinnedText(SOURCE), Hole(starts_with="wid", max_tokens=6), PinnedText(REST)),
}


def filled(engine: Engine, *segments: PinnedText | Hole | str, **other: object) -> Answer:
    return fill(engine, *segments, **{"seed": 7, "max_steps": 5, "candidates": 2, **other})


def check_same(found: Engine, wanted: Engine, *segments: PinnedText | Hole, **other: object) -> None:
    ours, theirs = (filled(each, *segments, **other).candidates for each in (found, wanted))
    assert ours
    assert [(it.texts, it.steps, it.tokens) for it in ours] == [(it.texts, it.steps, it.tokens) for it in theirs]
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-3)


@pytest.mark.parametrize("task", TASKS)
def test_the_tokens_are_those_of_torch(on_mlx: Engine, on_torch: Engine, task: str) -> None:
    check_same(on_mlx, on_torch, *TASKS[task])


def test_with_experts_a_small_window_and_shared_values_too(released: Engine, random_folder: object) -> None:
    """Random weights of the released kind: layers of both kinds, whose full ones have heads of another size."""
    found = Engine(registry.load_model(str(random_folder), device="mlx", dtype="float32"))
    context = (Snippet("other.py", "value = 3\n" * 6),)  # longer than the window
    check_same(found, released, PinnedText("x = "), Hole(min_tokens=5, max_tokens=5), PinnedText("\n"), context=context)

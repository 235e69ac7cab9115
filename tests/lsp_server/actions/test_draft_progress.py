"""How far a fill is said to be, by its drafts."""

from inference.messages import Draft
from lsp_server.actions.draft_progress import DraftProgress


def draft(step: int, *holes: str) -> Draft:
    """A draft after `step` of 8 steps; a hole whose canvas has not begun is empty."""
    pieces = tuple((text,) if text else () for text in holes)
    return Draft("r", step, 8, pieces, tuple(tuple(1.0 for _ in hole) for hole in pieces))


def test_one_canvas_counts_its_steps() -> None:
    progress = DraftProgress()
    assert [progress(draft(step, "a", "b")) for step in (2, 4, 8)] == [
        ("step 2 of 8", 25),
        ("step 4 of 8", 50),
        ("step 8 of 8", 100),
    ]


def test_of_several_canvases_it_says_which_holes_are_being_filled() -> None:
    progress = DraftProgress()
    assert progress(draft(4, "a", "b", "", "")) == ("holes 1 to 2 of 4, step 4 of 8", 25)
    assert progress(draft(8, "a", "b", "", "")) == ("holes 1 to 2 of 4, step 8 of 8", 50)
    assert progress(draft(4, "a", "b", "c", "")) == ("hole 3 of 4, step 4 of 8", 62)
    assert progress(draft(2, "a", "b", "c", "d")) == ("hole 4 of 4, step 2 of 8", 81)
    assert progress(draft(8, "a", "b", "c", "d"))[1] == 100


def test_a_canvas_that_starts_again_is_not_another_one() -> None:
    progress = DraftProgress()
    progress(draft(6, "a", "b", ""))
    assert progress(draft(1, "a", "b", "")) == ("holes 1 to 2 of 3, step 1 of 8", 8)

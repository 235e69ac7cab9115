"""Pins on a canvas what the user types or accepts while it is denoised."""

from inference.engine.canvas import fills
from inference.engine.canvas.layout import Slots
from inference.engine.canvas.plan import Plan
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.loaded_model import LoadedModel
from inference.engine.search.denoise import Denoising


def pin(model: LoadedModel, loop: Denoising, plan: Plan, hole: int, text: str) -> bool:
    """Pins `text` at the start of a hole on every canvas whose answer begins with it, and drops the other canvases.

    Returns False, changing nothing, if no canvas agrees.
    """
    agreeing = [
        (index, *found)
        for index in range(loop.canvas.batch)
        if (found := _agreed(model.vocabulary, loop, index, plan.layout.holes[hole], hole, text)) is not None
    ]
    if not agreeing:
        return False
    keep = [index for index, _, _ in agreeing]
    canvas = loop.canvas.pin(keep, loop.answer, hole, [rows for _, rows, _ in agreeing])
    given = [(hole, number, rest) for number, (_, _, rest) in enumerate(agreeing) if rest]
    constraint = model.constraints.of(canvas, plan.layout.holes, given=given)
    loop.go_on_with(keep, canvas, constraint)
    return True


def _agreed(
    vocabulary: Vocabulary, loop: Denoising, index: int, slots: Slots, hole: int, text: str
) -> tuple[int, bytes] | None:
    """How many rows of the hole `text` covers, and the bytes of it that begin the next row.

    None if this canvas's answer does not begin with `text`.
    """
    rows = fills.values(vocabulary, loop.answer[index].tolist(), loop.canvas.spans[index][hole], slots)
    wanted = b"".join(rows)[: slots.skip] + text.encode()
    if not b"".join(rows).startswith(wanted):
        return None
    count = 0
    while count < len(rows) and len(wanted) >= len(rows[count]):
        wanted = wanted[len(rows[count]) :]
        count += 1
    return count, wanted

"""A real notebook in VS Code: a cell sees the names of the others, and a next edit reaches them."""

import json
from contextlib import suppress

from tests.editors.partner import Partner
from tests.editors.places import until
from tests.editors.vscode.window import Window

FIRST = "basket_limit = 3\n"
SECOND = "print(basket_limit)\nshown = "
GHOST = "basket_limit + 1"


def notebook(*cells: str) -> str:
    kinds = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    listed = [{**kinds, "source": cell.splitlines(keepends=True)} for cell in cells]
    metadata = {"language_info": {"name": "python"}}
    return json.dumps({"cells": listed, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def sources(window: Window) -> list[str]:
    """The cells in the file; none while VS Code writes it."""
    with suppress(json.JSONDecodeError):
        return ["".join(cell["source"]) for cell in json.loads(window.saved())["cells"]]
    return []


def test_cells_see_each_other(window: Window, model: Partner) -> None:
    model.answers(GHOST)
    window.open_notebook("cells.ipynb", notebook(FIRST, SECOND))
    window.enter_cell(1)
    window.press("Control+End")
    window.type("b")
    until(lambda: window.ghost == GHOST[1:], "a suggestion is shown in the second cell")
    assert FIRST.strip() in model.asked[-1]["prefix"]
    window.press("Tab")
    until(lambda: sources(window) == [FIRST, SECOND + GHOST], "it is taken")
    window.enter_cell(0)
    window.press("Control+Home", "Control+Shift+ArrowRight")
    window.type("most")
    window.press("Escape")
    window.enter_cell(1)
    wanted = [text.replace("basket_limit", "most") for text in (FIRST, SECOND + GHOST)]

    def is_renamed() -> bool:
        """Whether all is; Tab jumps to what is shown, and takes it."""
        until(lambda: window.drawn == "most" or sources(window) == wanted, "the next edit is shown in the second cell")
        if window.drawn:
            before = sources(window), window.cursor
            window.press("Tab")
            until(lambda: (sources(window), window.cursor) != before, "Tab has jumped, or has taken it")
        return sources(window) == wanted

    until(is_renamed, "both places are renamed")

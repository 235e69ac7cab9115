"""Ghost text typed key by key, several holes and rework through the server, with a small model that fills the middle.

It is a real causal model with fill-in-the-middle tokens; its output is poor, but it is what the model finds likeliest,
so every answer here is the same each time.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol.types import Position

from tests.e2e.conftest import PATIENT
from tests.e2e.editor import Editor, capabilities, everywhere
from tests.e2e.workbench import Workbench, marked

pytestmark = pytest.mark.asyncio(loop_scope="module")
FIM = Path(__file__).parents[1] / "data" / "fim"
CODE = """\
def area(width, height):
    total = ???
    print(total)
    return ???
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(runtime_folder: Path) -> AsyncIterator[Editor]:
    can = capabilities()
    can.experimental = {"infillDrafts": True}
    editor = await Editor.start(runtime_folder, can, {**PATIENT, "model": str(FIM), "idleSeconds": 5})
    yield editor
    assert await editor.quit() == 0


async def test_ghost_text_is_shown_and_typed_on(editor: Editor) -> None:
    text = "import os\n\n\ndef names(folder):\n    for name in os.\n        print(name)\n"
    uri = editor.open(text)
    items = await editor.complete(uri, Position(4, 19))
    assert items
    assert all("\n" not in str(item.insert_text) for item in items)
    shown = str(items[0].insert_text)
    start = items[0].range.start.character if items[0].range else 19
    for count in (1, 2):
        typed = shown[19 - start :][:count]
        editor.change(uri, 1 + count, text.replace("os.", f"os.{typed}"))
        again = await editor.complete(uri, Position(4, 19 + count), invoked=False)
        assert again, "what was suggested still fits"


async def test_several_holes_are_filled_and_nothing_else_changes(editor: Editor) -> None:
    bench = Workbench(editor)
    uri = bench.open(CODE)
    assert (await bench.fill("fillFile", uri, everywhere(), token="t"))["applied"]
    old, new = CODE.split("\n"), bench.text(uri).split("\n")
    assert {number for number, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]} <= {1, 3}
    assert new[1].startswith("    total = ")
    assert new[3].startswith("    return ")
    assert bench.drafts
    assert all(0 <= sure <= 1 for draft in bench.drafts for hole in draft.holes for sure in hole.confidences)


async def test_a_selection_is_reworked_and_nothing_else_changes(editor: Editor) -> None:
    bench = Workbench(editor)
    text = CODE.replace("???", "width + height")
    uri = bench.open(text)
    assert (await bench.fill("rework", uri, marked(text, "total = width + height"), strength=0.8))["applied"]
    old, new = text.split("\n"), bench.text(uri).split("\n")
    assert old[0] == new[0]
    assert old[2:] == new[-len(old[2:]) :]
    assert old != new

"""Ghost text, several holes at once and rework through the server, with a masked-diffusion checkpoint.

Weights are random and the tokenizer is the embedded checkpoint's. What random weights write fits into comments alone,
so that is where the holes are; once as a model of known lengths, once as one that makes holes longer and shorter.
"""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol.types import Position

from inference.models import registry
from tests.e2e.conftest import PATIENT
from tests.e2e.editor import Editor, capabilities, everywhere
from tests.e2e.workbench import Workbench, marked
from tests.inference.models.random_masked import random_qwen2
from tests.workers import ATTEMPTS, short_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")
CODE = """\
def area(width, height):
    # the ??? of
    total = width * height
    # and ??? too
    return total
"""
INFILL = {"expand": ({"expand_token_id": 4, "delete_token_id": 1}, "single"), "fixed": ({}, "linear")}


@pytest.fixture(scope="module", params=INFILL)
def checkpoint(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder with random weights."""
    more, schedule = INFILL[request.param]
    with short_folder() as name:
        folder = Path(name)
        random_qwen2(vocab_size=4096).save_pretrained(folder)
        (folder / "tokenizer.json").write_bytes((registry.find("embedded").folder / "tokenizer.json").read_bytes())
        properties: dict[str, Any] = {"corruption": "mask", "mask_token_id": 3, "first_text_token_id": 5, **more}
        sampler = {"method": "entropy", "schedule": schedule, "t_max": 0.0, "t_min": 0.0, "max_steps": 32}
        (folder / "infill.json").write_text(json.dumps(properties | {"shifted_logits": True, "sampler": sampler}))
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(runtime_folder: Path, checkpoint: Path) -> AsyncIterator[Editor]:
    can = capabilities()
    can.experimental = {"infillDrafts": True}
    editor = await Editor.start(runtime_folder, can, {**PATIENT, "model": str(checkpoint), "idleSeconds": 5})
    yield editor
    assert await editor.quit() == 0


async def test_ghost_text_is_shown_and_typed_on(editor: Editor) -> None:
    text = "def area(width, height):\n    # \n    return width * height\n"
    uri = editor.open(text)
    for _ in range(ATTEMPTS):
        items = await editor.complete(uri, Position(1, 6))
        if items:
            break
    assert items
    assert all("\n" not in str(item.insert_text) for item in items)
    shown = str(items[0].insert_text)
    start = items[0].range.start.character if items[0].range else 6
    first = shown[6 - start]
    editor.change(uri, 2, text.replace("# ", f"# {first}"))
    assert await editor.complete(uri, Position(1, 7), invoked=False), "what was suggested still fits"


async def test_only_the_holes_change_when_filled_together(editor: Editor) -> None:
    bench = Workbench(editor)
    uri = bench.open(CODE)
    for _ in range(ATTEMPTS):
        if (await bench.fill("fillFile", uri, everywhere(), token="t"))["applied"]:
            break
    old, new = CODE.split("\n"), bench.text(uri).split("\n")
    assert [number for number, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]] == [1, 3]
    assert new[1].startswith("    # the ")
    assert new[1].endswith(" of")
    assert new[3].endswith(" too")
    assert any(all(hole.text for hole in draft.holes) for draft in bench.drafts), "on one canvas"
    assert all(0 <= sure <= 1 for draft in bench.drafts for hole in draft.holes for sure in hole.confidences)


async def test_a_selection_is_reworked_and_nothing_else_changes(editor: Editor) -> None:
    bench = Workbench(editor)
    text = CODE.replace("???", "sides and other words")
    uri = bench.open(text)
    selection = marked(text, "sides and other words of")
    for strength in (0.9,) * ATTEMPTS:
        if (await bench.fill("rework", uri, selection, strength=strength))["applied"]:
            break
    old, new = text.split("\n"), bench.text(uri).split("\n")
    assert [number for number, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]] == [1]
    assert new[1].startswith("    # the ")

"""Ghost text typed on, several holes at once and rework through the server, with the other kinds of local models.

The masked-diffusion model has random weights and makes holes longer and shorter; what it writes fits into comments
alone, so that is where its holes are. The other one is a small causal model that fills the middle.
"""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

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
FIM = Path(__file__).parents[1] / "data" / "fim"
CODE = "def area(width, height):\n    # the sides and other words of\n    return width * height\n"


@pytest.fixture(scope="module", params=["masked", "middle"])
def checkpoint(request: pytest.FixtureRequest) -> Iterator[Path]:
    if request.param == "middle":
        yield FIM
        return
    with short_folder() as name:
        folder = Path(name)
        random_qwen2(vocab_size=4096).save_pretrained(folder)
        (folder / "tokenizer.json").write_bytes((registry.find("embedded").folder / "tokenizer.json").read_bytes())
        tokens = {"mask_token_id": 3, "first_text_token_id": 5, "expand_token_id": 4, "delete_token_id": 1}
        sampler = {"method": "entropy", "schedule": "single", "t_max": 0.0, "t_min": 0.0, "max_steps": 32}
        properties = {"corruption": "mask", "shifted_logits": True, **tokens, "sampler": sampler}
        (folder / "infill.json").write_text(json.dumps(properties))
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(runtime_folder: Path, checkpoint: Path) -> AsyncIterator[Editor]:
    can = capabilities()
    can.experimental = {"infillDrafts": True}
    editor = await Editor.start(runtime_folder, can, {**PATIENT, "model": str(checkpoint), "idleSeconds": 5})
    yield editor
    assert await editor.quit() == 0


def changed_lines(before: str, after: str) -> list[int]:
    pairs = zip(before.split("\n"), after.split("\n"), strict=True)
    return [number for number, (old, new) in enumerate(pairs) if old != new]


async def test_ghost_text_is_shown_and_typed_on(editor: Editor) -> None:
    text = "def area(width, height):\n    # \n    return width * height\n"
    uri = editor.open(text)
    for _ in range(ATTEMPTS):
        if items := await editor.complete(uri, Position(1, 6)):
            break
    assert items
    assert all("\n" not in str(item.insert_text) for item in items)
    start = items[0].range.start.character if items[0].range else 6
    first = str(items[0].insert_text)[6 - start]
    editor.change(uri, 2, text.replace("# ", f"# {first}"))
    assert await editor.complete(uri, Position(1, 7), invoked=False), "what was suggested still fits"


async def test_only_the_holes_change_when_filled_together(editor: Editor, checkpoint: Path) -> None:
    bench = Workbench(editor)
    holes = ("total = ???", "return ???") if checkpoint == FIM else ("# the ??? of", "# and ??? too")
    code = "def area(width, height):\n    {}\n    print(width)\n    {}\n".format(*holes)
    uri = bench.open(code)
    for _ in range(ATTEMPTS):
        if (answer := await bench.fill("fillFile", uri, everywhere(), token="t"))["applied"]:
            break
    assert answer["applied"]
    new = bench.text(uri).split("\n")
    assert set(changed_lines(code, bench.text(uri))) <= {1, 3}
    for number, hole in zip((1, 3), holes, strict=True):
        head, _, tail = hole.partition("???")
        assert new[number].startswith(f"    {head}") and new[number].endswith(tail)
    assert bench.drafts
    one_canvas = any(all(hole.text for hole in draft.holes) for draft in bench.drafts)
    assert checkpoint == FIM or (one_canvas and len(changed_lines(code, bench.text(uri))) == 2)
    assert all(0 <= sure <= 1 for draft in bench.drafts for hole in draft.holes for sure in hole.confidences)


async def test_a_selection_is_reworked_and_nothing_else_changes(editor: Editor) -> None:
    bench = Workbench(editor)
    uri = bench.open(CODE)
    for _ in range(ATTEMPTS):
        if (await bench.fill("rework", uri, marked(CODE, "sides and other words of"), strength=0.9))["applied"]:
            break
    assert changed_lines(CODE, bench.text(uri)) == [1]
    assert bench.text(uri).split("\n")[1].startswith("    # the ")

"""Ghost text typed on, several holes at once and rework through the server, with a masked-diffusion model.

It has random weights and makes holes longer and shorter; what it writes fits into comments alone, so that is where its
holes are. The real model of `tests/real` is one that fills the middle.
"""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from inference.models import registry
from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import EVERYWHERE, RawClient, capable
from tests.e2e.user import User
from tests.inference.models.random_masked import random_qwen2
from tests.workers import short_folder

CODE = "def area(width, height):\n    # the sides and other words of\n    return width * height\n"


@pytest.fixture(scope="module")
def checkpoint() -> Iterator[Path]:
    with short_folder() as name:
        folder = Path(name)
        random_qwen2(vocab_size=4096).save_pretrained(folder)
        (folder / "tokenizer.json").write_bytes((registry.find("embedded").folder / "tokenizer.json").read_bytes())
        tokens = {"mask_token_id": 3, "first_text_token_id": 5, "expand_token_id": 4, "delete_token_id": 1}
        sampler = {"method": "entropy", "schedule": "single", "t_max": 0.0, "t_min": 0.0, "max_steps": 32}
        properties = {"corruption": "mask", "shifted_logits": True, **tokens, "sampler": sampler}
        (folder / "infill.json").write_text(json.dumps(properties))
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(runtime_folder: Path, checkpoint: Path) -> AsyncIterator[RawClient]:
    can = capable(experimental__infillDrafts=True)
    chosen = {"model": str(checkpoint), "device": "cpu", "idleSeconds": 5}
    client = await RawClient.start(runtime_folder, {**PATIENT, **chosen}, capabilities=can)
    yield client
    assert await client.quit() == 0


def changed_lines(before: str, after: str) -> list[int]:
    pairs = zip(before.split("\n"), after.split("\n"), strict=True)
    return [number for number, (old, new) in enumerate(pairs) if old != new]


async def test_ghost_text_is_shown_and_typed_on(client: RawClient, checkpoint: Path) -> None:
    user = User(client, "def area(width, height):\n    # ‸\n    return width * height\n")
    item = await user.offered(invoked=True)
    assert "\n" not in item["insertText"]
    user.type(user.rest(item)[0])
    assert await user.complete(invoked=False), "what was suggested still fits"
    status = await client.status()
    assert (status["model"], status["device"], status["lastFailure"]) == (str(checkpoint), "cpu", None)


async def test_only_the_holes_change_when_filled_together(client: RawClient) -> None:
    holes = ("# the ??? of", "# and ??? too")
    code = "def area(width, height):\n    {}\n    print(width)\n    {}\n".format(*holes)
    user = User(client, code)
    await user.surely_fill("fillFile", *EVERYWHERE, token="t")
    changed, new = changed_lines(code, user.text), user.text.split("\n")
    assert changed == [1, 3]
    for number, hole in zip((1, 3), holes, strict=True):
        head, _, tail = hole.partition("???")
        assert new[number].startswith(f"    {head}") and new[number].endswith(tail)
    assert any(all(hole["text"] for hole in draft["holes"]) for draft in user.drafts), "they share a canvas"
    for draft in user.drafts:
        for hole in draft["holes"]:
            user.check_draft(hole)


async def test_a_selection_is_reworked_and_nothing_else_changes(client: RawClient) -> None:
    user = User(client, CODE)
    await user.surely_fill("rework", *user.around("sides and other words of"), strength=0.9)
    assert changed_lines(CODE, user.text) == [1]
    assert user.text.split("\n")[1].startswith("    # the ")

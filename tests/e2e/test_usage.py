"""`infill-ls stats` after real sessions: the figures match what was seen and done."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lsp_server.cli import main
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import EVERYWHERE, RawClient
from tests.e2e.user import Item, User
from tests.workers import ATTEMPTS, until

ALONE = {"debounceMs": 0, "suggestions": "eager", "prefetch": False, "candidates": {"invoked": 1}}
QUICK = {**PATIENT, "maxSteps": 4, **ALONE}
LONG = "def total(values):\n    remarkable_result = ‸\n    return remarkable_result\n"
HOLES = "def size(path):\n    return ???\n\n\nprint(???)\n"
Stats = Callable[..., dict[str, Any]]


@pytest.fixture
def stats(state: Path, capsys: pytest.CaptureFixture[str]) -> Stats:
    def run(*more: str) -> dict[str, Any]:
        capsys.readouterr()
        main(["stats", "--json", *more])
        return json.loads(capsys.readouterr().out)

    return run


def put_in(user: User, item: Item, characters: int | None = None) -> None:
    """Put an item into the text, or the first characters that are new of it."""
    if characters is None:
        user.replace(*user.span(item), item["insertText"])
    else:
        user.type(user.rest(item)[:characters])


@pytest_asyncio.fixture(loop_scope="session")
async def client(state: Path, start: Start) -> RawClient:
    return await start(QUICK)


async def test_the_figures_are_what_the_session_did(client: RawClient, stats: Stats, state: Path) -> None:
    users = [User(client, LONG) for _ in range(3)]
    whole, part, none = [await user.offered(invoked=True, at_least=4) for user in users]
    put_in(users[0], whole)
    users[0].says("infill/didAccept", id=users[0].id(whole))
    users[1].says("infill/didAccept", id=users[1].id(part), acceptedLength=len(users[1].rest(part)[:3]))
    put_in(users[1], part, 3)
    users[2].says("infill/didReject", id=users[2].id(none))
    assert await client.quit() == 0
    found = stats()
    (total,), (language,), (trigger,) = (found[name] for name in ("total", "language", "trigger"))
    assert (total["whole"], total["part"], total["rejected"]) == (1, 1, sum(user.rejected for user in users) + 1)
    assert total["shown"] == total["whole"] + total["part"] + total["rejected"]
    assert total["mean ms"] > 0
    assert (language["language"], trigger["trigger"]) == ("python", "asked")
    held = b"".join(file.read_bytes() for file in state.rglob("*") if file.is_file())
    assert b"python" in held
    assert not [word for word in (b"remarkable", b"def total", b"project/", b"file:") if word in held]


async def test_automatic_ones_count_by_how_sure_they_must_be(client: RawClient, stats: Stats) -> None:
    await User(client, LONG).offered()
    assert await client.quit() == 0
    assert {counted["trigger"] for counted in stats()["trigger"]} == {"typing, eager"}


async def filled(client: RawClient, *, applies: bool = True) -> User:
    """A user of whose two holes an edit was shown, and applied or not."""
    user = User(client, HOLES, refuses="" if applies else "no")
    for _ in range(ATTEMPTS):
        answer = await user.fill("fillFile", *EVERYWHERE)
        if user.edits:
            assert answer["applied"] is applies
            return user
    raise AssertionError(f"nothing that fits in {ATTEMPTS} attempts")


async def test_a_fill_counts_where_the_editor_applies_it(client: RawClient, stats: Stats) -> None:
    await filled(client)
    await filled(client, applies=False)
    user = User(client, HOLES)
    action = next(each for each in await user.actions((0, 0), (9, 0)) if each["kind"].endswith("fillHole"))
    user.apply(await user.surely_resolved(action))
    await client.status()
    assert await client.quit() == 0
    (counted,) = stats()["trigger"]
    assert (counted["trigger"], counted["shown"], counted["whole"], counted["rejected"]) == ("action", 3, 2, 1)


async def test_where_it_is_off_nothing_is_recorded(start: Start, stats: Stats, state: Path) -> None:
    off = await start({**QUICK, "statistics": "off"})
    await filled(off)
    assert await off.quit() == 0
    assert stats()["total"] == []
    assert not state.exists()


async def test_unwritable_statistics_are_reported_once(start: Start, state: Path) -> None:
    state.write_text("in the way")
    client = await start(QUICK)
    for _ in range(2):
        await filled(client)
        await until(lambda: client.shown)
    assert await client.quit() == 0
    (told,) = client.shown
    assert str(state) in told and "`statistics`" in told

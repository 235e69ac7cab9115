"""`textDocument/inlineCompletion`: suggestions at the cursor, and nowhere else."""

import asyncio

import pytest

from tests.e2e.conftest import Start
from tests.e2e.raw_client import RawClient, capable
from tests.e2e.user import Item, User
from tests.workers import ATTEMPTS

ADD = "def add(a, b):\n    return ‸\n"


async def offered(user: User) -> list[Item]:
    for _ in range(ATTEMPTS):
        if items := await user.complete():
            return items
    raise AssertionError(f"nothing offered in {ATTEMPTS} attempts")


@pytest.mark.parametrize("typed", ["return ", "", "ret"])
async def test_the_rest_of_a_line_or_body_is_offered(client: RawClient, typed: str) -> None:
    user = User(client, f"def add(a, b):\n    {typed}‸\n\n\nprint(add(1, 2))\n")
    for item in await offered(user):
        user.rest(item)
        fill = item["insertText"]
        assert fill.strip()
        assert typed != "return " or "\n" not in fill
        assert typed != "ret" or fill.startswith("ret")


async def test_what_the_user_asked_for_comes_with_a_choice(client: RawClient) -> None:
    user = User(client, ADD)
    asked = [await user.complete() for _ in range(6)]
    by_itself = [await user.complete(invoked=False) for _ in range(6)]
    assert max(map(len, asked)) > 1
    assert max(map(len, by_itself)) == 1


async def test_a_language_without_a_grammar_is_filled_too(client: RawClient) -> None:
    user = User(client, "function add(a, b)\n    return ‸\nend\n", "unheard-of")
    assert all(user.rest(item) for item in await offered(user))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32"])
async def test_positions_are_right_in_every_encoding(start: Start, encoding: str) -> None:
    client = await start(capabilities=capable(general__positionEncodings=[encoding]))
    assert client.encoding == encoding
    user = User(client, "s = '𝔘ñ😀'; label = pri‸\nprint(s)\n")
    for item in await offered(user):
        assert user.rest(item) == item["insertText"].removeprefix("pri")
        assert user.span(item)[0] == user.cursor - 3


async def test_a_newer_request_wins(client: RawClient) -> None:
    user = User(client, ADD)
    first, second = await asyncio.gather(*(user.complete(invoked=False) for _ in range(2)))
    assert first == []
    assert len(second) <= 1


async def test_a_result_for_an_older_text_is_dropped(client: RawClient) -> None:
    user = User(client, ADD)
    asked = user.ask(invoked=True)
    user.retype("def add(a, b):\n    pass\n")
    assert await user.items(asked) == []


async def test_a_document_that_is_not_open_is_answered_with_nothing(client: RawClient) -> None:
    client.complete("never opened", "file:///project/never-opened.py", 0, 0)
    assert (await client.reply("never opened"))["result"]["items"] == []

"""Hard documents: each request gets exactly one reply, and other requests are still answered."""

import asyncio
import random
import string
import time

from tests.e2e.conftest import Start
from tests.e2e.raw_client import EVERYWHERE, RawClient
from tests.e2e.user import User

SETTINGS = {"deadlineMs": {"automatic": 1_000, "invoked": 2_000}, "maxSteps": 4, "idleSeconds": 30}
NOT_LATE_S = 30.0
"""Many times the deadline of what is asked for; the status takes some hundredths of a second."""


async def user_of(start: Start, text: str, language: str = "python") -> User:
    """Of a server whose worker has answered before."""
    client = await start(SETTINGS)
    await User(client, "x = ‸").complete()
    return User(client, text, language)


async def longest_wait_s(client: RawClient, *keys: str) -> float:
    """Asks for the status again and again until these requests are answered: how long that took at most."""
    longest_s = 0.0
    while not all(key in client.replies for key in keys):
        began = time.monotonic()
        await client.status()
        longest_s = max(longest_s, time.monotonic() - began)
    return longest_s


async def test_one_line_of_15_mb_is_typed_into(start: Start) -> None:
    user = await user_of(start, "x = [1, 2]; " * 1_250_000 + "‸")
    asked = []
    for letter in "y =":
        user.type(letter)
        asked.append(user.ask())
    assert await longest_wait_s(user.client, *asked, user.ask(invoked=True)) < NOT_LATE_S
    assert (await user.client.status(user.uri))["version"] == 4


async def test_5000_nested_holes_are_filled_or_refused_in_time(start: Start) -> None:
    user = await user_of(start, "x = ???\n" * 5_000, "rust")
    user.refuses = "seen enough"
    async with asyncio.timeout(NOT_LATE_S):
        await user.fill("fillFile", *EVERYWHERE)


async def test_300_kb_of_junk_are_completed_while_the_status_is_told(start: Start) -> None:
    junk = "".join(random.Random(12).choices(string.printable.replace("\x0b", "").replace("\x0c", ""), k=300_000))
    user = await user_of(start, junk.replace("\r", "\n"))
    asked = []
    for quarter in range(4):
        user.cursor = user.text.index("\n", quarter * len(user.text) // 4)
        user.type("\nvalue = ")
        asked.append(user.ask(invoked=True))
    assert await longest_wait_s(user.client, *asked) < NOT_LATE_S / 3

"""Hard documents: each request gets exactly one reply, and other requests are still answered."""

import random
import string
import time

from tests.e2e.conftest import Start
from tests.e2e.raw_client import RawClient

SETTINGS = {"deadlineMs": {"automatic": 1_000, "invoked": 2_000}, "maxSteps": 4, "idleSeconds": 30}
NOT_DEAF_S = 10.0
"""Within this any server answers that is not deaf; it takes some hundredths of a second."""
NOT_LATE_S = 30.0
"""Many times the deadline of what is asked for."""


async def client_of(start: Start) -> RawClient:
    client = await start(SETTINGS)
    client.open("untitled:small", "x = ")
    client.complete("small", "untitled:small", 0, 4, invoked=True)
    await client.reply("small")
    return client


async def longest_wait_s(client: RawClient, *keys: str) -> float:
    """Asks for the status again and again until these requests are answered: how long that took at most."""
    longest_s = 0.0
    while not all(key in client.replies for key in keys):
        began = time.monotonic()
        await client.status()
        longest_s = max(longest_s, time.monotonic() - began)
    return longest_s


def typed(client: RawClient, uri: str, version: int, line: int, character: int, text: str) -> None:
    place = {"line": line, "character": character}
    change = {"range": {"start": place, "end": place}, "text": text}
    document = {"uri": uri, "version": version}
    client.send({"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": [change]}})


async def test_one_line_of_15_mb_is_typed_into(start: Start) -> None:
    client, uri, text = await client_of(start), "untitled:line", "x = [1, 2]; " * 1_250_000
    client.open(uri, text)
    for version, letter in enumerate("y =", 2):
        typed(client, uri, version, 0, len(text) + version - 2, letter)
        client.complete(f"typed {version}", uri, 0, len(text) + version - 1)
    client.complete("invoked", uri, 0, len(text) + 3, invoked=True)
    assert await longest_wait_s(client, "invoked", *(f"typed {version}" for version in range(2, 5))) < NOT_LATE_S
    assert (await client.status(uri))["version"] == 4
    assert await client.quit() == 0
    assert set(client.counts.values()) == {1}


async def test_5000_nested_holes_are_filled_or_refused_in_time(start: Start) -> None:
    client, uri = await client_of(start), "untitled:holes"
    client.open(uri, "x = ???\n" * 5_000, "rust")
    everything = {"start": {"line": 0, "character": 0}, "end": {"line": 5_000, "character": 0}}
    client.answers["workspace/applyEdit"] = lambda _: {"applied": True}
    began = time.monotonic()
    arguments = [{"uri": uri, "range": everything}]
    client.request("fill", "workspace/executeCommand", {"command": "infill-ls.fillFile", "arguments": arguments})
    await longest_wait_s(client, "fill")
    assert time.monotonic() - began < NOT_LATE_S
    assert await client.quit() == 0
    assert set(client.counts.values()) == {1}


async def test_300_kb_of_junk_are_completed_while_the_status_is_told(start: Start) -> None:
    client, uri = await client_of(start), "untitled:junk"
    junk = "".join(random.Random(12).choices(string.printable.replace("\x0b", "").replace("\x0c", ""), k=300_000))
    lines = junk.replace("\r", "\n").split("\n")
    client.open(uri, "\n".join(lines))
    asked = []
    for version, line in enumerate(range(0, len(lines), len(lines) // 4), 2):
        typed(client, uri, version, line, len(lines[line]), "\nvalue = ")
        client.complete(f"junk {line}", uri, line + version - 1, 8, invoked=True)
        asked.append(f"junk {line}")
    assert await longest_wait_s(client, *asked) < NOT_DEAF_S
    assert await client.quit() == 0
    assert set(client.counts.values()) == {1}

"""A file system that does not answer is waited for once."""

import asyncio
from threading import Event

from lsp_server.settings.blocking_io import BlockingIo
from tests.workers import poll


async def test_a_late_answer_is_waited_for_once() -> None:
    files = BlockingIo()
    answer = Event()
    calls: list[None] = []

    def look() -> bool:
        calls.append(None)
        return answer.wait()

    assert await files.run("a", look) is None
    again = asyncio.ensure_future(files.run("a", look))
    for _ in range(10):  # turns of the loop, in which nothing is waited for
        await asyncio.sleep(0)
    assert again.done() and again.result() is None
    assert len(calls) == 1
    answer.set()
    await poll(lambda: files.run("a", look), bool)

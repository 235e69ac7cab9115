"""Newest wins, for each document by itself."""

import asyncio

import pytest

from lsp_server.newest import Newest


async def later(result: str) -> str:
    await asyncio.sleep(0.01)
    return result


async def test_the_newer_stops_the_older() -> None:
    newest: Newest[str] = Newest()
    older, newer = (newest.start("a.py", later(name), invoked=False) for name in ("older", "newer"))
    assert (await older, await newer) == (None, "newer")


async def test_documents_do_not_disturb_each_other() -> None:
    newest: Newest[str] = Newest()
    one, other = newest.start("a.py", later("a"), invoked=False), newest.start("b.py", later("b"), invoked=False)
    assert (await one, await other) == ("a", "b")


async def test_what_the_user_asked_for_is_not_stopped_by_what_appears_while_typing() -> None:
    newest: Newest[str] = Newest()
    asked, typed = (
        newest.start("a.py", later("asked"), invoked=True),
        newest.start("a.py", later("typed"), invoked=False),
    )
    assert (await asked, await typed) == ("asked", "typed")


async def test_a_change_of_the_text_stops_both() -> None:
    newest: Newest[str] = Newest()
    asked, typed = (
        newest.start("a.py", later("asked"), invoked=True),
        newest.start("a.py", later("typed"), invoked=False),
    )
    newest.stop("a.py")
    assert (await asked, await typed) == (None, None)


@pytest.mark.parametrize("begun", [False, True])
async def test_cancelled_by_the_client_is_not_stopped_by_something_newer(begun: bool) -> None:
    newest: Newest[str] = Newest()
    stopped = asyncio.Event()

    async def work() -> str:
        try:
            return await later("never")
        finally:
            stopped.set()

    waiting = newest.start("a.py", work(), invoked=False)
    if begun:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0.02)
    assert stopped.is_set() or not begun


async def test_nothing_is_kept_of_what_has_ended() -> None:
    newest: Newest[str] = Newest()
    await newest.start("a.py", later("a"), invoked=False)
    await asyncio.sleep(0)
    assert newest._running == {}

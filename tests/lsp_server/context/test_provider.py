"""Context is chosen in a thread, and no request waits for it longer than it may."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from inference.messages import Snippet
from lsp_server.context.provider import MAX_UNFINISHED, ContextSource
from tests.lsp_server.context.conftest import OTHERS, PATIENT_MS, Workspace


async def test_queries_do_not_pile_up_while_a_drive_hangs(workspace: Workspace) -> None:
    """As a lost network drive does: each query holds the text of every open document."""
    thread, drive_is_back = ThreadPoolExecutor(max_workers=1), threading.Event()
    thread.submit(drive_is_back.wait)
    source = ContextSource(thread)
    query = workspace.query("main.py", OTHERS, workspace.opened("a.py", OTHERS))
    for _ in range(20):
        assert await source.gather(query, 1) == ()
    assert source.unfinished == MAX_UNFINISHED
    drive_is_back.set()
    while not (found := await source.gather(query, PATIENT_MS)):
        await asyncio.sleep(0.01)
    assert found == (Snippet("a.py", OTHERS),)

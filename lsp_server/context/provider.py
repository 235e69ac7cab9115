"""Provides context for requests: chooses it in a thread, within a time limit."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from inference.messages import Snippet
from lsp_server.context.gather import Choice, ContextQuery, choose

log = logging.getLogger(__name__)

TYPING_MS, ASKED_MS = 50, 1_000
"""How long an automatic and an explicit request wait for the parts of other files."""

MAX_UNFINISHED = 4
"""This many unfinished queries mean that the thread hangs, as on a lost network drive: do not queue more."""


class ContextSource:
    """Chooses context for one query at a time, in its own thread, and keeps the last choice."""

    def __init__(self, threads: ThreadPoolExecutor | None = None) -> None:
        self._threads = threads or ThreadPoolExecutor(max_workers=1, thread_name_prefix="context")
        self._last: Choice | None = None
        self.unfinished = 0
        """How many queries the thread has not finished, including those whose requests have stopped waiting."""

    async def gather(self, query: ContextQuery, max_ms: int) -> tuple[Snippet, ...]:
        """Snippets, most useful first; none if that takes longer than `max_ms`. Never raises."""
        if self.unfinished >= MAX_UNFINISHED:
            log.info("no context: earlier requests for it are unfinished")
            return ()
        working = asyncio.get_running_loop().run_in_executor(self._threads, self._choose, query)
        self.unfinished += 1
        working.add_done_callback(self._finished)
        done, _ = await asyncio.wait({working}, timeout=max_ms / 1000)
        return working.result() if done else ()

    def close(self) -> None:
        """Stops gathering. Does not wait for a folder being looked at."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _finished(self, _: "asyncio.Future[tuple[Snippet, ...]]") -> None:
        self.unfinished -= 1

    def _choose(self, query: ContextQuery) -> tuple[Snippet, ...]:
        try:
            self._last = choose(query, self._last)
        except Exception as error:  # context is optional: a fill continues without it
            log.warning("context was not gathered: %s", type(error).__name__)
            return ()
        return self._last.snippets

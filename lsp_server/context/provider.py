"""Context for requests: gathered in a thread of its own, cut off after its time, never in the way of typing."""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor

from inference.messages import Snippet
from lsp_server.context.file_cache import FileCache, TooLate
from lsp_server.context.gather import gather
from lsp_server.context.query import ContextQuery
from lsp_server.context.tokens import within

log = logging.getLogger(__name__)
SPARE_S = 1.0
"""What takes too long for a request goes on for so long, so that the next one finds it read."""


MAX_UNFINISHED = 4
"""With so many questions unanswered the thread hangs, as on a network drive that is gone: no more are kept for it."""


class ContextSource:
    """Gathers one question's context at a time; what was read stays in memory until the file changes."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="context")
        self._library = FileCache()
        self._unfinished = 0

    async def gather(self, question: ContextQuery, max_tokens: int, max_ms: int) -> tuple[Snippet, ...]:
        """Snippets of together at most `max_tokens`, the most useful ones first: what was found within `max_ms`.

        Never raises; a file that cannot be read, or hangs, is only missing.
        """
        if self._unfinished >= MAX_UNFINISHED:
            log.info("no context: the files that were asked for before cannot be read yet")
            return ()
        found: list[Snippet] = []
        give_up = time.monotonic() + max_ms / 1000 + SPARE_S
        working = asyncio.get_running_loop().run_in_executor(
            self._threads, self._collect, question, max_tokens, found, give_up
        )
        self._unfinished += 1
        working.add_done_callback(self._finished)
        await asyncio.wait({working}, timeout=max_ms / 1000)
        return tuple(found)

    def close(self) -> None:
        """Gather no more; what is being read is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _finished(self, _: "asyncio.Future[None]") -> None:
        self._unfinished -= 1

    def _collect(self, question: ContextQuery, max_tokens: int, found: list[Snippet], give_up: float) -> None:
        self._library.until = give_up
        try:
            for snippet in within(gather(question, self._library), max_tokens):
                found.append(snippet)  # noqa: PERF402 - one by one, as whoever waits may stop waiting at any time
        except TooLate:
            log.info("context took too long")
        except Exception as error:  # context is an extra: a fill goes without it
            log.warning("context was not gathered: %s", type(error).__name__)

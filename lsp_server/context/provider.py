"""Provides context for requests: gathers it in a thread, within a time limit and a token budget."""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from inference.messages import Snippet, Status
from lsp_server.context.file_cache import FileCache, Readable, TooLate
from lsp_server.context.gather import Buffer, ContextQuery, gather
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.uris import local_path
from lsp_server.settings.resolver import Configuration
from lsp_server.settings.schema import ContextSettings

log = logging.getLogger(__name__)
SPARE_S = 1.0
"""How long gathering may continue after the request's own time limit, so that the next request finds the files read."""

TYPING_MS, ASKED_MS = 50, 1_000
"""How long an automatic and an explicit request wait for the parts of other files."""

MAX_UNFINISHED = 4
"""This many unfinished queries mean that the thread hangs, as on a lost network drive: do not queue more."""

BYTES_PER_TOKEN = 3
"""With the supported tokenizers, code has 3 to 4 bytes of UTF-8 per token; other scripts have about one character."""


class ContextSource:
    """Gathers context for one query at a time, in its own thread, and caches files in memory until they change."""

    def __init__(self, threads: ThreadPoolExecutor | None = None) -> None:
        self._threads = threads or ThreadPoolExecutor(max_workers=1, thread_name_prefix="context")
        self._cache = FileCache()
        self.unfinished = 0
        """How many queries the thread has not finished, including those whose requests have stopped waiting."""

    async def for_hole(
        self,
        snapshot: Snapshot,
        offset: int,
        settings: ContextSettings,
        status: Status | None,
        *,
        configuration: Configuration,
        opened: Iterable[Document] = (),
        max_ms: int = ASKED_MS,
    ) -> tuple[Snippet, ...]:
        """The parts of other files that help at `offset`, from the workspace and `opened`; none if unused."""
        max_tokens = min(settings.max_tokens, status.context_tokens if status else 0)
        document = _buffer_of(snapshot)
        if not settings.enabled or not max_tokens or document is None:
            return ()
        buffers = tuple(buffer for other in opened if (buffer := _buffer_of(other)) is not None)
        line = snapshot.lines.line_of(offset)
        readable = Readable(configuration.roots, configuration.why_unreadable)
        query = ContextQuery(document, snapshot.tree, line, buffers, readable)
        return await self.gather(query, max_tokens, max_ms)

    async def gather(self, query: ContextQuery, max_tokens: int, max_ms: int) -> tuple[Snippet, ...]:
        """Snippets of at most `max_tokens` in all, most useful first, found within `max_ms`. Never raises."""
        if self.unfinished >= MAX_UNFINISHED:
            log.info("no context: files for earlier requests are still being read")
            return ()
        found: list[Snippet] = []
        give_up = time.monotonic() + max_ms / 1000 + SPARE_S
        working = asyncio.get_running_loop().run_in_executor(
            self._threads, self._collect, query, max_tokens, found, give_up
        )
        self.unfinished += 1
        working.add_done_callback(self._finished)
        await asyncio.wait({working}, timeout=max_ms / 1000)
        return tuple(found)

    def close(self) -> None:
        """Stops gathering. Does not wait for a file being read."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _finished(self, _: "asyncio.Future[None]") -> None:
        self.unfinished -= 1

    def _collect(self, query: ContextQuery, max_tokens: int, found: list[Snippet], give_up: float) -> None:
        self._cache.until = give_up
        try:
            for snippet in within(gather(query, self._cache), max_tokens):
                found.append(snippet)  # noqa: PERF402 - one by one, because the request may stop waiting at any time
        except TooLate:
            log.info("context took too long")
        except Exception as error:  # context is optional: a fill continues without it
            log.warning("context was not gathered: %s", type(error).__name__)


def _buffer_of(document: Document | Snapshot) -> Buffer | None:
    """None if the document is not a file on this machine."""
    path = local_path(document.uri)
    return Buffer(path, document.language_id, document.version, document.text) if path else None


def estimated_tokens(text: str) -> int:
    """The number of tokens in `text`, estimated without the model's tokenizer; rather too many than too few."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def within(snippets: Iterable[Snippet], max_tokens: int) -> Iterator[Snippet]:
    """The snippets that fit into the budget, in order; one that does not fit is skipped."""
    left = max_tokens
    for snippet in snippets:
        need = estimated_tokens(snippet.path) + estimated_tokens(snippet.text)
        if need <= left:
            left -= need
            yield snippet

"""Parses documents in threads if that takes long. Requests wait for the tree; keystrokes do not."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from lsp_server.documents.document import Document, ParseJob

_T = TypeVar("_T")


class Parsing:
    """The running parses of one editor's documents."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents
        self._running: dict[ParseJob, asyncio.Task[None]] = {}

    async def parsed(
        self, document: Document, job: ParseJob, handle: Callable[[], _T | Awaitable[_T]], otherwise: Callable[[], _T]
    ) -> _T:
        """The result of `handle` once `job` is done, or of `otherwise` if the document is edited or closed first."""
        running = self._running.get(job)
        if running is None:
            running = self._running[job] = asyncio.create_task(asyncio.to_thread(job.run))
            running.add_done_callback(lambda _: (self._running.pop(job, None), document.take(job)))
        await asyncio.shield(running)  # others may wait for it too
        if self._documents.get(document.uri) is not document or not document.take(job):
            return otherwise()
        result = handle()
        return await result if inspect.isawaitable(result) else result

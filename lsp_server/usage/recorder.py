"""What a session records: the events of the documents of which the user wants it, handed to the thread that writes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from lsp_server.usage.events import Event
from lsp_server.usage.place import usage_file
from lsp_server.usage.writer import Writer

CLOSE_S = 3.0
"""The end of a session waits so long for what is still to be written."""


class Recorder:
    """`is_wanted` says of a document whether to record it; `warn` is called on the event loop with what goes wrong."""

    def __init__(self, is_wanted: Callable[[str], bool], warn: Callable[[str], None]) -> None:
        self._is_wanted, self._warn = is_wanted, warn
        self._writer = Writer(usage_file, self._tell)
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, uri: str, event: Event) -> None:
        """Something has happened in a document."""
        if self._is_wanted(uri):
            self._loop = asyncio.get_running_loop()
            self._writer.add(event)

    async def close(self) -> None:
        """Wait for what is still to be written, but not for a disk that hangs."""
        await asyncio.to_thread(self._writer.close, CLOSE_S)

    def _tell(self, message: str) -> None:
        """In the thread that writes."""
        with suppress(RuntimeError):  # the loop has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._warn, message)

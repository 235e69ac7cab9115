"""The editor's own progress display while the model loads.

One token for each load: created once, begun, ended, and then forgotten. Knows nothing about the worker.
"""

import asyncio
import logging
from itertools import count

from lsprotocol import types
from pygls.lsp.server import LanguageServer

log = logging.getLogger(__name__)
_numbers = count(1)


class LoadProgress:
    """Shows one load at a time."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._changed = asyncio.Event()
        self._loading = False
        self._message, self._fraction = "", 0.0
        self._showing: asyncio.Task[None] | None = None

    def update(self, *, loading: bool, message: str, fraction: float) -> None:
        """Tell how far it is. `fraction` is 0 to 1; what is shown ends when `loading` is False."""
        self._loading, self._message, self._fraction = loading, message, fraction
        self._changed.set()
        if loading and self._showing is None:
            self._showing = asyncio.create_task(self._show(f"infill-ls/load/{next(_numbers)}"))

    async def _show(self, token: str) -> None:
        try:
            await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(token=token))
            self._send(token, types.WorkDoneProgressBegin(title="infill-ls: loading the model", percentage=0))
            while self._loading:
                self._changed.clear()
                self._send(token, types.WorkDoneProgressReport(message=self._message, percentage=self._percentage))
                await self._changed.wait()
            self._send(token, types.WorkDoneProgressEnd())
        except Exception as error:  # the client would not: then there is nothing to show
            log.info("no progress display: %s", type(error).__name__)
        finally:
            self._showing = None

    @property
    def _percentage(self) -> int:
        return min(max(int(self._fraction * 100), 0), 100)

    def _send(
        self, token: str, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        self._server.progress(types.ProgressParams(token=token, value=value))

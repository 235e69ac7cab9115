"""The session's connection to its editor: messages and requests to it, apart from replies."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from lsp_server.lsp.progress import ProgressTracker

log = logging.getLogger(__name__)


class EditorConnection:
    """Shows a message only once if asked to."""

    def __init__(self, server: LanguageServer) -> None:
        self.progress = ProgressTracker(server)
        self._server = server
        self._shown: set[str] = set()
        self._configuration_round = 0

    def show(self, message: str, kind: types.MessageType) -> None:
        """Shows the user a message."""
        self._server.window_show_message(types.ShowMessageParams(type=kind, message=f"infill-ls: {message}"))

    def show_once(self, message: str, kind: types.MessageType) -> None:
        """Shows the user a message, unless already shown."""
        if message not in self._shown:
            self._shown.add(message)
            self.show(message, kind)

    def notify(self, method: str, params: Any) -> None:
        """Sends one of our own notifications."""
        self._server.protocol.notify(method, params)

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> tuple[bool, str | None]:
        """Has the client apply `edit`, which it must support. Returns whether it did, and if not, why."""
        applying = self._server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, label))
        try:
            result = await asyncio.shield(applying)  # the answer is processed even if nobody waits for it
        except JsonRpcException as error:
            return False, f"the editor failed to apply the edit: {error.message}"
        return result.applied, None if result.applied else result.failure_reason or "the editor did not apply the edit"

    async def configuration(self, items: Sequence[types.ConfigurationItem]) -> Sequence[Any] | None:
        """The client's settings for `items`; None if it does not answer, or a newer request replaced this one."""
        self._configuration_round += 1
        this_round = self._configuration_round
        try:
            found = await self._server.workspace_configuration_async(types.ConfigurationParams(items=list(items)))
        except Exception as error:  # the client refused; keep what it sent before
            log.info("no configuration: %s", type(error).__name__)
            return None
        return found if this_round == self._configuration_round else None

    async def register(self, method: str) -> None:
        """Subscribes to a notification; a client may refuse."""
        wanted = types.RegistrationParams([types.Registration(f"infill-ls/{method}", method)])
        try:
            await self._server.client_register_capability_async(wanted)
        except Exception as error:
            log.info("the client registers nothing: %s", type(error).__name__)

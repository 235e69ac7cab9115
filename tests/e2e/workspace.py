"""An editor with workspace folders that answers requests for settings and for watching files."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types

from tests.e2e.editor import SERVER, Client, Editor, capabilities, environment
from tests.workers import PATIENCE_S


def asked_capabilities() -> types.ClientCapabilities:
    """Those of an editor that lets itself be asked for settings, and watches files."""
    can = capabilities()
    watched = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
    pushed = types.DidChangeConfigurationClientCapabilities(dynamic_registration=True)
    more = {"configuration": True, "did_change_watched_files": watched, "did_change_configuration": pushed}
    return attrs.evolve(can, workspace=attrs.evolve(can.workspace, workspace_folders=True, **more))


class Workspace(Editor):
    """An editor with folders, that keeps what the server has registered and how often it was asked for settings."""

    registered: list[types.Registration]

    def open_in(self, folder: Path, text: str = "x = 1\n", name: str = "main.py") -> str:
        uri = (folder / name).as_uri()
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    async def is_off(self, uri: str) -> bool:
        return (await self.status(uri)).off is not None

    async def comes_to(self, wanted: object, ask: Callable[[], Any]) -> None:
        """Wait until what is asked for is as wanted."""
        give_up = time.monotonic() + PATIENCE_S
        while (found := await ask()) != wanted:
            assert time.monotonic() < give_up, f"it stays {found}"
            await asyncio.sleep(0.02)

    async def messages(self) -> list[str]:
        await self.status()
        return [message.message for message in self.client.messages]


async def open_workspace(
    runtime: Path,
    *folders: Path,
    can: types.ClientCapabilities | None = None,
    configuration: dict[str, Any] | None = None,
    options: object = None,
    flags: tuple[str, ...] = (),
) -> Workspace:
    client = Client()
    registered: list[types.Registration] = []
    client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: registered.extend(params.registrations))
    client.feature("infill/didChangeStatus")(lambda note: None)
    for scope, settings in (configuration or {}).items():
        client.set_configuration(settings, scope_uri=scope)
    await client.start_io(*SERVER, *flags, env=environment(runtime))
    initialized = await client.initialize_session(
        types.InitializeParams(
            capabilities=can or asked_capabilities(),
            initialization_options=options,
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders],
        )
    )
    workspace = Workspace(client, "utf-16", initialized)
    workspace.registered = registered
    return workspace

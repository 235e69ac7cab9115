"""A test editor: drives the real server as a process over stdio."""

import os
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any, Union

from lsprotocol import types
from lsprotocol.types import CodeAction, InlineCompletionItem, InlineCompletionTriggerKind, Position, Range
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient
from pytest_lsp.client import register_lsp_features
from pytest_lsp.protocol import LanguageClientProtocol

SERVER = [sys.executable, "-m", "lsp_server.cli", "serve", "--stdio"]
CURSOR = "‸"
AS_PLUGIN = {"experimental": {"infillDrafts": False}}
"""Capabilities of a plugin of ours, which offers a model by itself."""
_numbers = count(1)


def capabilities(
    encodings: list[str] | None = None, *, versioned: bool = True, lazy: bool = True, progress: bool = True
) -> types.ClientCapabilities:
    """What VS Code and Neovim can do, as far as it matters here."""
    resolve = types.ClientCodeActionResolveOptions(properties=["edit"]) if lazy else None
    literals = types.ClientCodeActionLiteralOptions(types.ClientCodeActionKindOptions(value_set=["refactor"]))
    return types.ClientCapabilities(
        experimental=AS_PLUGIN["experimental"],
        general=types.GeneralClientCapabilities(position_encodings=encodings),
        window=types.WindowClientCapabilities(work_done_progress=progress),
        workspace=types.WorkspaceClientCapabilities(
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=versioned), apply_edit=True
        ),
        text_document=types.TextDocumentClientCapabilities(
            inline_completion=types.InlineCompletionClientCapabilities(),
            code_action=types.CodeActionClientCapabilities(
                code_action_literal_support=literals, resolve_support=resolve, data_support=lazy
            ),
        ),
    )


class Protocol(LanguageClientProtocol):
    """Keeps the futures of all requests, so that a test can ask which got no answer."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.requests: list[Future[Any]] = []

    def send_request(self, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = super().send_request(*arguments, **named)
        self.requests.append(future)
        return future


class Client(LanguageClient):
    """pytest-lsp's client, which also keeps the server's exit status."""

    protocol: Protocol
    exit_status: int | None = None

    def __init__(self) -> None:
        super().__init__(protocol_cls=Protocol, converter_factory=_converter)
        register_lsp_features(self)

    async def server_exit(self, server: Process) -> None:
        self.exit_status = server.returncode


class Editor:
    def __init__(self, client: Client, encoding: str, started: types.InitializeResult) -> None:
        self.client = client
        self.encoding = encoding
        self.started = started
        self.notes: list[Any] = []

    @classmethod
    async def start(
        cls,
        runtime: Path,
        can: types.ClientCapabilities,
        options: object = None,
        flags: tuple[str, ...] = (),
        **variables: str,
    ) -> "Editor":
        """A new server process, initialized; `variables` are more of its environment."""
        client = Client()
        notes: list[Any] = []
        client.feature("infill/didChangeStatus")(lambda note: notes.append(note))
        await client.start_io(*SERVER, *flags, env={**environment(runtime), **variables})
        params = types.InitializeParams(capabilities=can, initialization_options=options, process_id=None)
        started = await client.initialize_session(params)
        editor = cls(client, types.PositionEncodingKind(started.capabilities.position_encoding).value, started)
        editor.notes = notes
        return editor

    async def quit(self) -> int | None:
        """Shut the server down as editors do; its exit status. Every request has had its answer by then."""
        await self.client.shutdown_async(None)
        assert all(request.done() for request in self.client.protocol.requests), "a request was left without an answer"
        self.client.exit(None)
        await self.client.stop()  # type: ignore[no-untyped-call]
        return self.client.exit_status

    def open(self, text: str, language: str = "python", name: str = "main.py") -> str:
        uri = f"file:///project/{next(_numbers)}/{name}"
        item = types.TextDocumentItem(uri=uri, language_id=language, version=1, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, version: int, text: str, range_: Range | None = None) -> None:
        change = (
            types.TextDocumentContentChangePartial(range=range_, text=text)
            if range_
            else types.TextDocumentContentChangeWholeDocument(text=text)
        )
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=version)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def complete(self, uri: str, at: Position, *, invoked: bool = True) -> list[InlineCompletionItem]:
        kind = InlineCompletionTriggerKind.Invoked if invoked else InlineCompletionTriggerKind.Automatic
        result = await self.client.text_document_inline_completion_async(
            types.InlineCompletionParams(types.InlineCompletionContext(kind), types.TextDocumentIdentifier(uri), at)
        )
        return list(result.items)

    async def actions(
        self,
        uri: str,
        range_: Range,
        only: list[str] | None = None,
        *,
        diagnostics: Sequence[types.Diagnostic] = (),
        trigger: types.CodeActionTriggerKind | None = None,
    ) -> list[CodeAction]:
        context = types.CodeActionContext(diagnostics=list(diagnostics), only=only, trigger_kind=trigger)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), range_, context)
        result = await self.client.text_document_code_action_async(params)
        assert all(isinstance(action, CodeAction) for action in result or ())
        return list(result or ())  # type: ignore[arg-type]

    async def resolve(self, action: CodeAction) -> CodeAction:
        return await self.client.code_action_resolve_async(action)

    async def status(self, uri: str | None = None) -> Any:
        params = {"textDocument": {"uri": uri}} if uri else None
        return await self.client.protocol.send_request_async("infill/status", params)  # type: ignore[no-untyped-call]


def _converter() -> Any:
    """As pygls makes it. But lsprotocol reads every code action that has a command as a command; this one does not."""
    converter = default_converter()

    def read(value: Any, _: Any) -> types.Command | CodeAction:
        kind = types.Command if isinstance(value.get("command"), str) else CodeAction
        return converter.structure(value, kind)

    converter.register_structure_hook(Union[types.Command, CodeAction], read)  # noqa: UP007 - the key it has there
    return converter


def environment(runtime: Path) -> dict[str, str]:
    """Keeps the server and its worker away from the user's own."""
    return {**os.environ, "INFILL_LS_RUNTIME_DIR": str(runtime)}


def everywhere() -> Range:
    return Range(Position(0, 0), Position(2**31 - 1, 0))


def here(at: Position) -> Range:
    return Range(at, at)

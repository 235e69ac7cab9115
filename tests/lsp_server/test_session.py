"""What a session keeps of its client, and for how long."""

import asyncio
import gc
from collections.abc import Awaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import ref

import pytest
from lsprotocol import types

from lsp_server.fill.pipeline import Budget
from lsp_server.handlers.did_accept import accept
from lsp_server.handlers.did_change import did_change
from lsp_server.handlers.inline_completion import inline_completion
from lsp_server.handlers.notebook_did_change import notebook_did_change
from lsp_server.inline import InlineRequest, InlineResult, InlineService
from lsp_server.inline.suggestion import Cursor
from lsp_server.lsp.capabilities import ClientFeatures
from lsp_server.lsp.worker_connection import WorkerConnection
from lsp_server.server import InfillServer
from lsp_server.session import Session
from lsp_server.worker import ClientState
from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.lsp_server.inline.scripted_worker import scripted_worker

URI = "file:///a.py"


async def shown(session: Session, service: InlineService, uri: str = URI) -> str:
    """The id of the one suggestion at the end of the first line."""
    request = InlineRequest(Cursor(4), Budget(1, 1000, None), "???")
    answer = service.ask(uri, request, lambda: session.snapshot(uri))
    assert not isinstance(answer, InlineResult), "nothing is known yet"
    ((suggestion, _),) = (await answer).found
    return suggestion.id


def types_at_the_end(session: Session, text: str, uri: str = URI) -> None:
    end = types.Position(0, 4)
    change = types.TextDocumentContentChangePartial(types.Range(end, end), text)
    document = types.VersionedTextDocumentIdentifier(uri=uri, version=2)
    did_change(session, types.DidChangeTextDocumentParams(document, [change]))


async def test_what_was_accepted_of_a_list_is_known_as_accepted_where_there_is_ghost_text_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with TemporaryDirectory(prefix="ils-", dir="/tmp") as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        async with scripted_worker() as worker:
            worker.fills = ["1"]
            session = InfillServer({}).session
            session.start(ClientFeatures(inline_completion=True), {"startWorker": False, "prefetch": False})
            session.open(URI, "python", 1, "x = \n")
            assert session.completions is not session.inline
            ghost, listed = await shown(session, session.inline), await shown(session, session.completions)
            accept(session, URI, listed)
            types_at_the_end(session, "1")
            assert session.completions.shown(URI, listed) is None
            assert session.inline.shown(URI, ghost) is not None
            await session.worker.close()


async def test_what_follows_is_not_computed_where_the_file_has_become_a_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = tmp_path / "a.py"
    link.symlink_to("main.py")
    uri = link.as_uri()
    with TemporaryDirectory(prefix="ils-", dir="/tmp") as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        async with scripted_worker() as worker:
            worker.fills = ["1"]
            session = InfillServer({}).session
            session.start(ClientFeatures(inline_completion=True), {"startWorker": False})
            session.open(uri, "python", 1, "x = \ny = \n")
            suggestion = await shown(session, session.inline, uri)
            link.unlink()
            link.symlink_to(".env")
            accept(session, uri, suggestion)
            types_at_the_end(session, "1", uri)
            await session.why_off_now(uri)
            await asyncio.sleep(0)
            assert uri not in session.documents
            assert len(worker.requests) == 1
            await session.worker.close()


def ask_at(session: Session, character: int) -> types.InlineCompletionList | Awaitable[types.InlineCompletionList]:
    """An inline completion in the first line, for which nobody asked."""
    context = types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic)
    document = types.TextDocumentIdentifier(URI)
    return inline_completion(session, types.InlineCompletionParams(context, document, types.Position(0, character)))


async def test_a_suggestion_that_still_fits_does_not_wait_for_a_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(prefix="ils-", dir="/tmp") as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        async with scripted_worker() as worker:
            worker.fills = ["12"]
            session = InfillServer({}).session
            session.start(ClientFeatures(inline_completion=True), {"startWorker": False, "confidenceFloor": 0})
            session.open(URI, "python", 1, "x = \n" + "y = f(a, b)\n" * 30_000)
            first = ask_at(session, 4)
            assert not isinstance(first, types.InlineCompletionList), "the text is not parsed yet"
            assert [item.insert_text for item in (await first).items] == ["12"]
            types_at_the_end(session, "1")
            second = ask_at(session, 5)
            assert isinstance(second, types.InlineCompletionList)
            assert [item.insert_text for item in second.items] == ["12"]
            await session.worker.close()


async def test_a_request_that_waits_for_a_parse_is_answered_with_nothing_when_the_text_changes() -> None:
    session = InfillServer({}).session
    session.start(ClientFeatures(inline_completion=True), {"startWorker": False})
    session.open(URI, "python", 1, "x = \n" + "y = f(a, b)\n" * 30_000)
    asked = ask_at(session, 4)
    assert not isinstance(asked, types.InlineCompletionList)
    waiting = asyncio.ensure_future(asked)
    await asyncio.sleep(0)
    types_at_the_end(session, "1")
    assert (await waiting).items == []


async def test_of_a_client_that_has_gone_no_document_is_kept() -> None:
    """Not even until garbage is collected: a server that listens has many clients, and documents are large."""
    server = InfillServer({})
    server.session.start(ClientFeatures(), {"startWorker": False})
    server.session.open(URI, "python", 1, "x = 1\n")
    server.session.documents[URI].snapshot()
    document = ref(server.session.documents[URI])
    gc.disable()
    try:
        await server.leave()
        assert document() is None
    finally:
        gc.enable()


class Hanging(WorkerConnection):
    """A line whose worker never lets go."""

    async def close(self) -> None:
        await asyncio.Event().wait()


async def test_a_worker_that_does_not_let_go_keeps_no_other_one() -> None:
    server = InfillServer({})
    partner = {"url": "http://127.0.0.1:9", "kind": "chat"}
    server.session.start(ClientFeatures(), {"startWorker": False, "partner": partner})
    server.session.worker = Hanging(server, lambda *_: None, lambda _: None)
    await server.leave()
    assert server.session.partner is not None
    assert server.session.partner.client.state is ClientState.CLOSED


async def test_a_cell_whose_edit_cannot_be_used_is_lost_alone() -> None:
    session = InfillServer({}).session
    session.start(ClientFeatures(), {"startWorker": False})
    notebook, cells = "file:///n.ipynb", ("cell:0", "cell:1")
    session.notebooks.open(notebook, cells)
    for cell in cells:
        session.open(cell, "python", 1, "x = 1\n")
    unusable = types.TextDocumentContentChangePartial(None, "")  # type: ignore[arg-type]
    whole = types.TextDocumentContentChangeWholeDocument("y")
    changed = [
        types.NotebookDocumentCellContentChanges(types.VersionedTextDocumentIdentifier(2, cell), [change])
        for cell, change in zip(cells, (unusable, whole), strict=True)
    ]
    change = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=changed))
    document = types.VersionedNotebookDocumentIdentifier(uri=notebook, version=2)
    with pytest.raises(AttributeError):
        notebook_did_change(session, types.DidChangeNotebookDocumentParams(document, change))
    assert {uri: document.text for uri, document in session.documents.items()} == {"cell:1": "y"}
    await session.worker.close()


async def test_a_document_of_which_two_edits_are_lost_is_found_again_like_one() -> None:
    session = InfillServer({}).session
    session.start(ClientFeatures(), {"startWorker": False})
    session.open(URI, "python", 1, "x = 1\n")
    for _ in range(2):
        session.lose(URI)
    session.lose_all()
    assert "could not be understood" in (session.why_off(URI) or "")
    whole = types.TextDocumentContentChangeWholeDocument("y")
    did_change(session, types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(2, URI), [whole]))
    assert session.documents[URI].text == "y"
    await session.worker.close()


@pytest.mark.parametrize("uri", ["file:///w/c#/.env", "file:///w/what?/id_rsa", "file:///w/#.env#", "file:///w/.env#1"])
async def test_a_sign_that_a_client_does_not_escape_hides_no_secret(uri: str) -> None:
    session = InfillServer({}).session
    session.start(ClientFeatures(), {"startWorker": False})
    session.open(uri, "plaintext", 1, "TOKEN=1\n")
    assert uri not in session.documents
    assert "may hold secrets" in (session.why_off(uri) or "")
    await session.worker.close()

"""The data a session keeps about its client, and for how long."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import ref

import pytest
from lsprotocol import types

from inference.deadline import Deadline
from lsp_server.features import Feature
from lsp_server.fill.pipeline import FillBudget
from lsp_server.handlers.documents import did_change, notebook_did_change
from lsp_server.handlers.inline_completion import accept_suggestion
from lsp_server.handlers.lifecycle import end_session
from lsp_server.inline import CompletionListService, Cursor, InlineRequest, InlineService
from lsp_server.lsp.capabilities import ClientCapabilities
from lsp_server.lsp.worker_supervisor import WorkerSupervisor
from lsp_server.refine.refiner import PartnerRefiner
from lsp_server.server import METHODS, InfillServer
from lsp_server.session import Session
from lsp_server.worker import ClientState
from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_worker
from tests.workers import short_folder

URI = "file:///a.py"
BUDGET = FillBudget(candidates=3, deadline=Deadline(60_000), max_steps=1)
Start = Callable[..., Session]


async def shown(session: Session, service: InlineService, uri: str = URI) -> str:
    """The id of the one suggestion at the end of the first line."""
    request = InlineRequest(Cursor(4), BUDGET.restarted(), "???")
    answer = service.complete(uri, request)
    assert isinstance(answer, asyncio.Future), "nothing is known yet"
    ((suggestion, _),) = await answer
    return suggestion.id


def types_text(session: Session, text: str, character: int = 4, uri: str = URI, end: int | None = None) -> None:
    """The user types in the first line, in place of what stands there up to `end`."""
    start, end = types.Position(0, character), character if end is None else end
    change = types.TextDocumentContentChangePartial(types.Range(start, types.Position(0, end)), text)
    document = types.VersionedTextDocumentIdentifier(uri=uri, version=session.documents[uri].version + 1)
    did_change(session, types.DidChangeTextDocumentParams(document, [change]))


@asynccontextmanager
async def working(
    monkeypatch: pytest.MonkeyPatch, *fills: str, folders: Sequence[str] = (), **options: object
) -> AsyncIterator[tuple[Session, ScriptedWorker]]:
    """A session of an editor with ghost text, and its worker, which always finds `fills`, or answers when told to."""
    with short_folder() as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        async with scripted_worker() as worker:
            worker.fills = [*fills] or None
            session = InfillServer({}).session
            options["deadlineMs"] = {"automatic": 60_000}
            session.start(ClientCapabilities(inline_completion=True), options, folders)
            yield session, worker
            await end_session(session)


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts sessions of an editor with ghost text, without a worker."""
    started: list[Session] = []

    def start(*folders: str, **options: object) -> Session:
        started.append(InfillServer({}).session)
        started[-1].start(ClientCapabilities(inline_completion=True), options, folders)
        return started[-1]

    yield start
    for session in started:
        await end_session(session)


async def test_accepting_from_a_list_counts_beside_ghost_text(monkeypatch: pytest.MonkeyPatch) -> None:
    async with working(monkeypatch, "1", prefetch=False) as (session, worker):
        session.open(URI, "python", 1, "x = \n")
        ghost, listed = [await shown(session, session.feature(kind)) for kind in (InlineService, CompletionListService)]
        accept_suggestion(session, URI, listed)
        types_text(session, "1")
        assert session.feature(CompletionListService).find_suggestion(URI, listed) is None
        assert session.feature(InlineService).find_suggestion(URI, ghost) is not None


async def test_no_prefetch_once_the_file_is_a_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    link = tmp_path / "a.py"
    link.symlink_to("main.py")
    uri = link.as_uri()
    async with working(monkeypatch, "1") as (session, worker):
        session.open(uri, "python", 1, "x = \ny = \n")
        suggestion = await shown(session, session.feature(InlineService), uri)
        link.unlink()
        link.symlink_to(".env")
        accept_suggestion(session, uri, suggestion)
        types_text(session, "1", uri=uri)
        await session.fresh_disabled_reason(uri)
        await asyncio.sleep(0)
        assert uri not in session.documents
        assert len(worker.requests) == 1


def ask_at(
    session: Session, character: int, uri: str = URI
) -> types.InlineCompletionList | Awaitable[types.InlineCompletionList]:
    """An inline completion in the first line, for which nobody asked."""
    context = types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic)
    document = types.TextDocumentIdentifier(uri)
    params = types.InlineCompletionParams(context, document, types.Position(0, character))
    return METHODS[types.TEXT_DOCUMENT_INLINE_COMPLETION].handle("", session, params)


async def test_a_suggestion_that_still_fits_does_not_wait_for_a_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    async with working(monkeypatch, "12", suggestions="eager") as (session, worker):
        session.open(URI, "python", 1, "x = \n" + "y = f(a, b)\n" * 30_000)
        first = ask_at(session, 4)
        assert not isinstance(first, types.InlineCompletionList), "the text is not parsed yet"
        assert [item.insert_text for item in (await first).items] == ["12"]
        types_text(session, "1")
        second = ask_at(session, 5)
        assert isinstance(second, types.InlineCompletionList)
        assert [item.insert_text for item in second.items] == ["12"]


async def test_edit_ends_a_request_that_waits_for_a_parse(start: Start) -> None:
    session = start()
    session.open(URI, "python", 1, "x = \n" + "y = f(a, b)\n" * 30_000)
    asked = ask_at(session, 4)
    assert not isinstance(asked, types.InlineCompletionList)
    waiting = asyncio.ensure_future(asked)
    await asyncio.sleep(0)
    types_text(session, "1")
    assert (await waiting).items == []


async def test_a_document_that_is_off_is_not_parsed(start: Start) -> None:
    session = start(disabledLanguages=["python"])
    session.open(URI, "python", 1, "y = f(a, b)\n" * 30_000)
    reply = ask_at(session, 0)
    assert isinstance(reply, types.InlineCompletionList) and not reply.items
    assert session.documents[URI].parse_job() is not None, "no earlier parse has been started or done"


async def test_of_a_client_that_has_gone_no_document_is_kept() -> None:
    """Not even until garbage is collected: a server that listens has many clients, and documents are large."""
    server = InfillServer({})
    server.session.start(ClientCapabilities(), {})
    server.session.open(URI, "python", 1, "x = 1\n")
    server.session.documents[URI].snapshot()
    document = ref(server.session.documents[URI])
    gc.disable()
    try:
        await server.protocol.leave()
        assert document() is None
    finally:
        gc.enable()


class Hanging(WorkerSupervisor):
    """A connection whose worker never lets go."""

    async def close(self) -> None:
        await asyncio.Event().wait()


async def test_a_worker_that_does_not_let_go_keeps_no_other_one() -> None:
    server = InfillServer({})
    server.session.start(ClientCapabilities(), {"partner": {"url": "http://127.0.0.1:9", "kind": "chat"}})
    server.session.worker = Hanging(server, lambda *_: None, lambda: None)
    await server.protocol.leave()
    assert server.session.partner.client.state is ClientState.CLOSED


async def test_a_cell_whose_edit_cannot_be_used_is_lost_alone(start: Start) -> None:
    session = start()
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


@pytest.mark.parametrize(
    "uri",
    [
        *("file:///w/c#/.env", "file:///w/what?/id_rsa", "file:///w/#.env#", "file:///w/.env#1", "untitled:.env"),
        *("diff://w/p/.env:HEAD", "diff://w/x?left=file:///p/.env&right=a.py", "git-show:HEAD:.env"),
        "file:///w/%252Eenv",
        *('git:/w/.env?{"path":"/w/.env","ref":"~"}', "git:/w/a?%7B%22path%22:%22/w/.env%22%7D", "git:/w/key.pem.git"),
        *("jar:file:///w/a.jar!/.env", "zipfile:///w/a.zip::.env", "fugitive:///w/.git//1a2b/.env", "x:?file=id_rsa"),
        *("vscode-notebook-cell:/w/.env#W0", "vscode-notebook-cell:/w/a.ipynb?path=.env#W0", "FILE:///w/.env%20"),
    ],
)
async def test_no_way_to_write_a_uri_hides_a_secret(start: Start, uri: str) -> None:
    session = start()
    session.open(uri, "plaintext", 1, "TOKEN=1\n")
    assert uri not in session.documents
    assert "may hold secrets" in (session.disabled_reason(uri) or "")


@pytest.mark.parametrize("cell", ["file:///w/.env", "vscode-notebook-cell:/w/id_rsa#W1", "file:///w/.ssh/a#1"])
async def test_a_cell_with_a_secret_name_is_no_document(start: Start, cell: str) -> None:
    session = start()
    session.notebooks.open("file:///w/n.ipynb", (cell, "cell:1"))
    for each in (cell, "cell:1"):
        session.open(each, "python", 1, "x = 1\n")
    assert list(session.documents) == ["cell:1"]
    assert "may hold secrets" in (session.disabled_reason(cell) or "")
    assert session.documents["cell:1"].snapshot().text_before == ""


async def test_a_cell_that_is_a_link_to_a_secret_is_never_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither for itself nor as the text around another cell, even if it becomes a link only later."""
    (tmp_path / "l1.py").symlink_to(".env")
    linked, later, other = ((tmp_path / name).as_uri() for name in ("l1.py", "l2.py", "a.py"))
    async with working(monkeypatch, "1", prefetch=False) as (session, worker):
        for cells in ((linked,), (other, later)):
            session.notebooks.open(f"{tmp_path.as_uri()}/{len(cells)}.ipynb", cells)
            for each in cells:
                session.open(each, "python", 1, "x = \n")
        assert (await session.fresh_disabled_reason(linked) or "").endswith("/.env)")
        assert linked not in session.documents
        assert await session.fresh_disabled_reason(other) is None
        (tmp_path / "l2.py").symlink_to(".env")
        answer = ask_at(session, 4, other)
        assert not isinstance(answer, types.InlineCompletionList)
        assert (await answer).items == []
        assert worker.requests == []


def test_who_hears_of_changes_in_which_order() -> None:
    """What follows taken texts moves them before the services say what was taken."""
    session = InfillServer({}).session
    heard = [type(each) for each in session.features.of_class(Feature)]
    assert heard.index(PartnerRefiner) < heard.index(InlineService) < heard.index(CompletionListService)


async def test_a_model_reads_lone_carriage_returns_as_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its answer in lines of them never ended, before the deadline. The fill gets the document's line ends."""
    text = "def f():\r    \r"
    async with working(monkeypatch, "x = 1\n    return x", prefetch=False) as (session, worker):
        session.open(URI, "python", 1, text)
        request = InlineRequest(Cursor(len(text) - 1), BUDGET.restarted(), "???")
        answer = session.feature(InlineService).complete(URI, request)
        assert isinstance(answer, asyncio.Future)
        ((_, fill),) = await answer
        assert fill.text == "x = 1\r    return x"
        assert "\r" not in repr(worker.requests[-1].segments).encode().decode("unicode_escape")


async def test_a_hard_link_to_an_open_secret_gets_no_fills(start: Start, tmp_path: Path) -> None:
    """Whether it is opened before the secret or after it."""
    secret = tmp_path / ".env"
    secret.write_text("A=1\n")
    links = [tmp_path / name for name in ("before.py", "after.py")]
    for link in links:
        link.hardlink_to(secret)
    session = start(tmp_path.as_uri())
    session.open(links[0].as_uri(), "python", 1, "A=1\n")
    session.open(secret.as_uri(), "dotenv", 1, "A=1\n")
    await session.fresh_disabled_reason(secret.as_uri())
    session.open(links[1].as_uri(), "python", 1, "A=1\n")
    for link in links:
        assert f"it leads to {secret}" in (await session.fresh_disabled_reason(link.as_uri()) or "")
    assert session.documents == {}


@pytest.mark.parametrize("disabled", ["js", "javascript", "JavaScript"])
async def test_a_language_is_off_by_any_of_its_ids(start: Start, disabled: str) -> None:
    session = start(disabledLanguages=[disabled])
    for language_id in ("js", "javascript", "text"):
        session.open("file:///p/a.js", language_id, 1, "let x = 1\n")
        assert "disabledLanguages" in (session.disabled_reason("file:///p/a.js") or "")
    session.open("file:///p/a.js", "typescript", 1, "let x = 1\n")
    assert session.disabled_reason("file:///p/a.js") is None


async def test_an_id_decides_again_after_reopening(start: Start) -> None:
    """And a text that is sent whole after an unreadable edit keeps it."""
    session = start(disabledLanguages=["text"])
    for language_id, expected in (("js", "javascript"), ("python", "python"), ("text", "javascript")):
        session.open("file:///p/a.js", language_id, 1, "x = 1\n")
        assert session.documents["file:///p/a.js"].language_id == expected
    session.mark_desynced("file:///p/a.js")
    session.resync("file:///p/a.js", 2, "x = 2\n")
    assert "for text (disabledLanguages)" in (session.disabled_reason("file:///p/a.js") or "")

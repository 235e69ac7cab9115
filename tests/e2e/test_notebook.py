"""Notebooks, untitled documents and documents with odd URIs get fills, unless their file must not have any."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import RawClient

NOTEBOOK = "file:///project/notebook.ipynb"
CELL = "vscode-notebook-cell:/project/notebook.ipynb#W1sZmlsZQ%3D%3D"
MARKED = "total = ???\n"


def item(uri: str, text: str, language: str = "python") -> dict[str, Any]:
    return {"uri": uri, "languageId": language, "version": 1, "text": text}


def open_notebook(client: RawClient, uri: str, *cells: dict[str, Any]) -> None:
    ids = [{"kind": 1 if cell["languageId"] == "markdown" else 2, "document": cell["uri"]} for cell in cells]
    notebook = {"uri": uri, "notebookType": "jupyter-notebook", "version": 1, "cells": ids}
    params = {"notebookDocument": notebook, "cellTextDocuments": cells}
    client.send({"method": "notebookDocument/didOpen", "params": params})


def change_notebook(client: RawClient, uri: str, cells: dict[str, Any]) -> None:
    params = {"notebookDocument": {"uri": uri, "version": 2}, "change": {"cells": cells}}
    client.send({"method": "notebookDocument/didChange", "params": params})


async def actions(client: RawClient, uri: str) -> Any:
    return await client.actions(uri, (0, 9), only="refactor.rewrite.infill")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(runtime_folder: Path) -> AsyncIterator[RawClient]:
    client = await RawClient.start(runtime_folder, {**PATIENT, "disabledGlobs": ["drafts/*"]})
    yield client
    assert await client.quit() == 0


async def test_a_cell_is_filled_and_only_that_cell_is_edited(client: RawClient) -> None:
    open_notebook(
        client, NOTEBOOK, item("cell:0", "x = 1\n"), item("cell:md", "# Sums", "markdown"), item(CELL, MARKED)
    )
    client.complete("inline", CELL, 0, 8, invoked=True)
    assert "items" in (await client.reply("inline"))["result"]
    client.request("fill", "codeAction/resolve", (await actions(client, CELL))[0])
    reply = await client.reply("fill")
    if "result" in reply:  # else the model found nothing, and the error says so
        assert [each["textDocument"]["uri"] for each in reply["result"]["edit"]["documentChanges"]] == [CELL]
    else:
        assert reply["error"]["code"] == -32803


async def test_a_next_edit_crosses_cells(client: RawClient) -> None:
    """For a name of the notebook; a cell that defines the name itself means another one."""
    cells = {"cell:a": "limit = 1\n", "cell:b": "print(limit, limit + 1)\n", "cell:c": "limit = 2\nprint(limit)\n"}
    open_notebook(client, NOTEBOOK, *(item(uri, text) for uri, text in cells.items()))
    first = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 5}}

    async def offered(uri: str) -> list[dict[str, Any]]:
        asked = {"textDocument": {"uri": uri}, "position": first["start"], "context": {"triggerKind": 2}}
        edits: list[dict[str, Any]] = (await client.ask("textDocument/copilotInlineEdit", asked))["edits"]
        return edits

    def change(uri: str, place: Any, version: int) -> None:
        made = {"document": {"uri": uri, "version": version}, "changes": [{"range": place, "text": "most"}]}
        change_notebook(client, NOTEBOOK, {"textContent": [made]})

    change("cell:a", first, 2)
    assert await offered("cell:a") == [] == await offered("cell:c")
    for version, column in ((2, 6), (3, 12)):
        (edit,) = await offered("cell:b")
        assert (edit["text"], edit["range"]["start"]["character"]) == ("most", column)
        change("cell:b", edit["range"], version)
    assert await offered("cell:b") == []


async def test_cells_are_edited_added_moved_and_closed(client: RawClient) -> None:
    open_notebook(client, NOTEBOOK, item("cell:0", "x = 1\n"))
    end = {"line": 0, "character": 5}
    change = {"range": {"start": end, "end": end}, "text": "0"}
    edit = {"document": {"uri": "cell:0", "version": 2}, "changes": [change]}
    change_notebook(client, NOTEBOOK, {"textContent": [edit]})
    assert (await client.status("cell:0"))["version"] == 2
    added = {"start": 1, "deleteCount": 0, "cells": [{"kind": 2, "document": "cell:1"}]}
    change_notebook(client, NOTEBOOK, {"structure": {"array": added, "didOpen": [item("cell:1", MARKED)]}})
    assert await actions(client, "cell:1")
    gone = {"start": 1, "deleteCount": 1}
    change_notebook(client, NOTEBOOK, {"structure": {"array": gone, "didClose": [{"uri": "cell:1"}]}})
    assert await actions(client, "cell:1") == []
    closed = {"notebookDocument": {"uri": NOTEBOOK}, "cellTextDocuments": []}
    client.send({"method": "notebookDocument/didClose", "params": closed})
    assert (await client.status("cell:0"))["off"] == "the document is not open"


async def test_cells_are_off_when_their_notebook_is(client: RawClient) -> None:
    open_notebook(client, "file:///project/drafts/n.ipynb", item("cell:off", MARKED))
    open_notebook(client, "file:///home/me/.ssh/n.ipynb", item("cell:secret", MARKED))
    assert "disabledGlobs" in (await client.status("cell:off"))["off"]
    assert "secrets" in (await client.status("cell:secret"))["off"]
    assert (await client.status("cell:secret"))["sha256"] is None
    assert await actions(client, "cell:off") == await actions(client, "cell:secret") == []


async def test_cell_has_the_settings_of_its_notebooks_folder(start: Start, tmp_path: Path) -> None:
    for name, marker in (("first", "<here>"), ("second", "<there>")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "infill-ls.toml").write_text(f"marker = '{marker}'\n")
    client = await start(folders=[tmp_path / "first", tmp_path / "second"])
    open_notebook(client, (tmp_path / "second/n.ipynb").as_uri(), item(CELL, "total = <there>\n"))
    assert [action["title"] for action in await actions(client, CELL)][:1] == ["Fill this hole"]


ODD = (
    "untitled:Untitled-1",
    "vscode-remote://ssh-remote%2Bhost/home/me/a.py",
    "file:///c%3A/Users/me/a%20b.py",
    "file:///C:/Users/me/caf%C3%A9/%F0%9F%98%80.py",
    "C:\\Users\\me\\a.py",
    "file:///p/100%.py",
    "http://[broken/a.py",
)


async def test_documents_with_odd_uris_are_filled(client: RawClient) -> None:
    before = client.shown
    for uri in ODD:
        client.open(uri, MARKED)
        assert (await actions(client, uri))[0]["title"]
        assert (await client.status(uri))["off"] is None
    assert client.shown == before

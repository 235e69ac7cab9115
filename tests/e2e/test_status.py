"""`infill/status` and `infill/didChangeStatus`: the model's state, at any time."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from lsprotocol import types
from lsprotocol.types import Position
from pygls.exceptions import JsonRpcException

from tests.e2e.conftest import PATIENT, StartEditor
from tests.e2e.editor import Editor, capabilities
from tests.workers import PATIENCE_S, short_folder


async def test_a_ready_worker_says_what_it_runs(editor: Editor) -> None:
    seen = len(editor.notes)
    await editor.complete(editor.open("x = "), Position(0, 4))
    async with asyncio.timeout(PATIENCE_S):
        while (states := [note.state for note in editor.notes[seen:]])[-1:] != ["ready"] or "busy" not in states:
            await asyncio.sleep(0.02)
    status = await editor.status()
    assert status.state in ("ready", "busy")
    assert (status.model, status.device) == ("embedded", "cpu")
    assert status.pid > 0
    assert status.memoryBytes > 0
    assert not hasattr(status, "off")
    empty = await editor.client.protocol.send_request_async("infill/status", [])  # type: ignore[no-untyped-call]
    assert empty.pid == status.pid  # an empty table of Lua


async def test_it_says_why_a_document_gets_nothing(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(), {"disabledLanguages": ["markdown"], "markr": "@@"})
    on, off = editor.open("x = \n"), editor.open("# Title\n", "markdown")
    (problem,) = (await editor.status()).problems
    assert "'markr' (did you mean 'marker'?)" in problem
    assert (await editor.status(editor.open("", "nothing-we-know", "a.xyz"))).grammar is False
    assert (await editor.status(on)).off is None
    assert "disabledLanguages" in (await editor.status(off)).off
    assert (await editor.status("file:///p/closed.py")).off == "the document is not open"
    assert await editor.complete(off, Position(0, 7)) == []


async def test_it_says_why_nothing_comes_at_a_position(editor: Editor) -> None:
    uri = editor.open("name = \n")
    here, there = {"line": 0, "character": 7}, {"line": 0, "character": 2}
    asked = [{"textDocument": {"uri": uri}, "position": position} for position in (here, there)]
    ask = editor.client.protocol.send_request_async
    at_end, in_word = [await ask("infill/status", params) for params in asked]
    assert at_end.noHole is None
    assert "middle of a word" in in_word.noHole
    with pytest.raises(JsonRpcException, match="invalid params for infill/status"):
        await ask("infill/status", {"textDocument": {"uri": uri}, "position": {"line": "x"}})
    assert at_end.grammar is True


async def test_loading_shows_progress_and_survives_a_cancel() -> None:
    """A cold start in a runtime folder of its own: progress in the editor, states told, the first fill waits for it."""
    with short_folder() as folder:
        editor = await Editor.start(Path(folder), capabilities(), PATIENT)
        uri = editor.open("x = ")
        impatient = asyncio.create_task(editor.complete(uri, Position(0, 4)))
        await asyncio.sleep(0.3)
        editor.change(uri, 2, "y")  # what was asked about is gone
        assert await impatient == []
        await editor.complete(uri, Position(0, 1))
        pid = (await editor.status()).pid
        ((_, shown),) = editor.client.progress_reports.items()
        assert await editor.quit() == 0
        os.kill(pid, signal.SIGTERM)
    assert isinstance(shown[0], types.WorkDoneProgressBegin)
    assert isinstance(shown[-1], types.WorkDoneProgressEnd)
    assert [type(step) for step in shown].count(types.WorkDoneProgressEnd) == 1
    assert {note.state for note in editor.notes} >= {"starting", "loading", "ready", "busy"}


async def test_failed_load_is_explained_once() -> None:
    with short_folder() as folder:
        editor = await Editor.start(Path(folder), capabilities(), {"model": f"{folder}/no-such-model"})
        uri = editor.open("x = ")
        for _ in range(3):
            assert await editor.complete(uri, Position(0, 4)) == []
        status = await editor.status()
        assert status.state in ("failed", "backing_off", "stopping", "stopped")
        assert "no-such-model" in status.lastFailure
        assert Path(status.log).is_file()
        shown = [message.message for message in editor.client.messages]
        assert await editor.quit() == 0
    assert len(shown) == 1
    assert "no-such-model" in shown[0]

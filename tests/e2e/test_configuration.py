"""Settings requested from the editor, files it watches for us, and workspaces with several folders."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio
from lsprotocol import types

from tests.e2e.editor import capabilities, here
from tests.e2e.workspace import Workspace, open_workspace

OFF = 'disabledLanguages = ["python"]'
SWITCH = {"disabledLanguages": ["python"]}
Start = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="session")
async def start(runtime_folder: Path) -> AsyncIterator[Start]:
    started: list[Workspace] = []

    async def start(*folders: Path, **more: Any) -> Workspace:
        started.append(await open_workspace(runtime_folder, *folders, **more))
        return started[-1]

    yield start
    for workspace in started:
        assert await workspace.quit() == 0


def folder(parent: Path, name: str, settings: str = "") -> Path:
    path = parent / name
    path.mkdir()
    if settings:
        (path / "infill-ls.toml").write_text(settings)
    return path


async def test_the_editor_is_asked_for_the_settings_of_each_folder(start: Start, tmp_path: Path) -> None:
    a, b = folder(tmp_path, "a"), folder(tmp_path, "b")
    asked = {"": {"infill-ls": {"debounceMs": 5}}, a.as_uri(): {"infill": SWITCH}}
    editor = await start(a, b, configuration=asked)
    in_a, in_b = editor.open_in(a), editor.open_in(b)
    await editor.comes_to(True, lambda: editor.is_off(in_a))
    assert not await editor.is_off(in_b)
    assert await editor.messages() == []


async def test_a_change_without_settings_makes_the_server_ask_again(start: Start, tmp_path: Path) -> None:
    a = folder(tmp_path, "a")
    editor = await start(a)
    uri = editor.open_in(a)
    assert not await editor.is_off(uri)
    assert [it.method for it in editor.registered] == [types.WORKSPACE_DID_CHANGE_CONFIGURATION]
    editor.client.set_configuration({"infill-ls": {**SWITCH, "markr": 1}})
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
    await editor.comes_to(True, lambda: editor.is_off(uri))
    (message,) = await editor.messages()
    assert "settings: unknown setting 'markr' (did you mean 'marker'?)" in message


async def test_settings_files_are_reread_on_save_and_open(start: Start, tmp_path: Path) -> None:
    a = folder(tmp_path, "a", OFF)
    editor = await start(a, can=capabilities())
    uri = editor.open_in(a)
    assert await editor.is_off(uri)
    (a / "infill-ls.toml").write_text("disabledLanguages = 7")
    editor.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
    assert not await editor.is_off(uri)
    (message,) = await editor.messages()
    assert message.startswith(f"infill-ls: {a}/infill-ls.toml: disabledLanguages: ")
    assert editor.registered == []
    (a / "infill-ls.toml").unlink()
    uri = editor.open_in(a)
    assert not await editor.is_off(uri)


async def test_a_bad_key_is_shown_once_and_the_rest_is_used(start: Start, tmp_path: Path) -> None:
    editor = await start(tmp_path, can=capabilities(), options={"maxStep": 4, "marker": "@@@"})
    problem = "infill-ls: initializationOptions: unknown setting 'maxStep' (did you mean 'maxSteps'?); ignored"
    assert await editor.messages() == [problem]
    changes = (({"infill-ls": {"debounceMs": 2}}, 1), ({"infill": {"disabledGlobs": ["*.py"]}}, 0), ({"other": 5}, 0))
    uri = editor.open_in(tmp_path, "x = ???\ny = @@@\n")
    for settings, offered in changes:
        editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
        assert len(await editor.actions(uri, here(types.Position(1, 4)))) == offered, settings
    assert await editor.messages() == [problem]

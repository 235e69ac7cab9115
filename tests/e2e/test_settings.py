"""Settings as editors send them: at start, and later."""

import pytest
from lsprotocol import types
from lsprotocol.types import Position

from tests.e2e.conftest import PATIENT, StartEditor
from tests.e2e.editor import Editor, capabilities, here

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOLE = "x = ???\ny = @@@\n"


def change(editor: Editor, settings: object) -> None:
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=settings))


async def messages(editor: Editor) -> list[str]:
    await editor.status()  # whatever was sent before it has arrived now
    return [message.message for message in editor.client.messages]


async def test_a_bad_key_is_shown_once_and_the_rest_is_used(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(), {"maxStep": 4, "marker": "@@@"})
    problem = "infill-ls: initializationOptions: unknown setting 'maxStep' (did you mean 'maxSteps'?); ignored"
    assert await messages(editor) == [problem]
    change(editor, {"infill-ls": {"candidates": {"invoked": 2}}})
    assert await messages(editor) == [problem]
    uri = editor.open(HOLE)
    assert [action.title for action in await editor.actions(uri, here(Position(1, 4)))] == ["Fill this hole"]


@pytest.mark.parametrize("section", ["infill-ls", "infill"])
async def test_settings_change_while_the_server_runs(start_editor: StartEditor, section: str) -> None:
    editor = await start_editor(capabilities())
    uri = editor.open(HOLE)
    change(editor, {section: {"marker": "@@@"}})
    assert len(await editor.actions(uri, here(Position(1, 4)))) == 1
    change(editor, {section: {"disabledGlobs": ["*.py"]}})
    assert await editor.actions(uri, here(Position(1, 4))) == []
    change(editor, {"other-server": {"marker": 5}})
    assert await messages(editor) == []


async def test_a_workspace_cannot_point_the_model_elsewhere(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities())
    change(editor, {"infill-ls": {"model": "somewhere/else"}})
    (message,) = await messages(editor)
    assert "model is read only at start" in message
    change(editor, {"infill-ls": {"model": "embedded"}})
    assert len(await messages(editor)) == 1


async def test_the_command_line_beats_the_editors_settings(start_editor: StartEditor) -> None:
    options = {**PATIENT, "model": "somewhere/else"}
    editor = await start_editor(capabilities(), options, "--model", "embedded", "--device", "cpu")
    uri = editor.open("x = ")
    await editor.complete(uri, Position(0, 4))
    assert (await editor.status()).model == "embedded"
    assert await messages(editor) == []


async def test_a_model_that_cannot_be_resolved_is_shown_by_name(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(), {"model": "~nosuchuser/x"})
    assert await editor.complete(editor.open("x = "), Position(0, 4)) == []
    shown = await messages(editor)
    assert shown
    assert all("model: '~nosuchuser/x' cannot be resolved: " in message for message in shown)

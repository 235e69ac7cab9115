"""`textDocument/codeAction` offers at once, `codeAction/resolve` fills: the holes change, and nothing else does."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsprotocol.types import CodeAction, Command, Position, Range
from pygls.exceptions import JsonRpcException

from tests.e2e import reference
from tests.e2e.conftest import PATIENT, StartEditor
from tests.e2e.editor import Editor, capabilities, everywhere, here

pytestmark = pytest.mark.asyncio(loop_scope="session")

THREE = "def area(radius):\n    return ???\n\n\nsides = [???]\nprint(area(2), len(sides), ???)\n"
NOTHING = "the model found nothing that fits here"
ATTEMPTS = 6
REQUEST_FAILED, INVALID_PARAMS = -32803, -32602


async def filled(editor: Editor, uri: str, action: CodeAction) -> CodeAction:
    """The resolved action; the embedded model may need more than one go at finding something that fits."""
    for _ in range(ATTEMPTS):
        try:
            return await editor.resolve(action)
        except JsonRpcException as error:
            assert (error.code, error.message) == (REQUEST_FAILED, NOTHING)
    raise AssertionError(f"nothing that fits in {ATTEMPTS} attempts")


def check_only_holes_changed(editor: Editor, uri: str, text: str, action: CodeAction, marker: str = "???") -> str:
    """The text after the action's edit, of which nothing but markers may differ."""
    assert action.edit is not None
    edits = reference.text_edits(action.edit, uri)
    spans = sorted(reference.span(text, edit.range, editor.encoding) for edit in edits)
    assert all(text[start:end].strip() == marker for start, end in spans)
    changed = reference.applied(text, edits, editor.encoding)
    at = 0
    for piece in reference.pieces_around(text, spans):  # what stood outside the holes stands there still, in order
        at = changed.index(piece, at) + len(piece)
    return changed


async def test_all_holes_of_a_file_are_offered_without_asking_the_model(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, here(Position(0, 0)))
    assert (action.title, action.kind) == ("Fill the 3 holes in this file", "refactor.rewrite.infill")
    assert action.edit is None
    assert action.command is None


async def test_the_hole_at_the_cursor_and_those_in_the_selection_are_offered_too(editor: Editor) -> None:
    uri = editor.open(THREE)
    at_hole = await editor.actions(uri, here(Position(1, 12)))
    assert [action.title for action in at_hole] == ["Fill this hole", "Fill the 3 holes in this file"]
    selected = await editor.actions(uri, Range(Position(4, 0), Position(5, 40)))
    assert [action.title for action in selected] == [
        "Fill the 2 holes in the selection",
        "Fill the 3 holes in this file",
    ]
    whole = await editor.actions(uri, everywhere())
    assert [action.title for action in whole] == ["Fill the 3 holes in this file"]


async def test_a_file_without_holes_offers_nothing(editor: Editor) -> None:
    assert await editor.actions(editor.open("x = 1\n"), everywhere()) == []


@pytest.mark.parametrize(
    ("only", "offered"),
    [(["refactor"], 1), (["refactor.rewrite.infill"], 1), ([""], 1), (["quickfix"], 0), (["refactor.rewrite.i"], 0)],
)
async def test_only_the_kinds_that_were_asked_for_are_offered(editor: Editor, only: list[str], offered: int) -> None:
    assert len(await editor.actions(editor.open(THREE), here(Position(0, 0)), only)) == offered


async def test_a_client_that_cannot_resolve_is_offered_nothing(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(lazy=False))
    assert await editor.actions(editor.open(THREE), everywhere()) == []


async def test_the_holes_are_filled_together_and_nothing_else_changes(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, everywhere())
    action = await filled(editor, uri, action)
    changed = check_only_holes_changed(editor, uri, THREE, action)
    assert changed != THREE
    assert action.edit is not None
    assert action.edit.document_changes is not None
    assert action.edit.document_changes[0].text_document.version == 1  # type: ignore[union-attr]


async def test_only_the_chosen_hole_is_filled(editor: Editor) -> None:
    uri = editor.open(THREE)
    action = await filled(editor, uri, (await editor.actions(uri, here(Position(4, 10))))[0])
    (edit,) = reference.text_edits(action.edit, uri)  # type: ignore[arg-type]
    assert edit.range == Range(Position(4, 9), Position(4, 12))


async def test_a_client_without_versioned_edits_gets_plain_changes(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(versioned=False))
    uri = editor.open(THREE)
    action = await filled(editor, uri, (await editor.actions(uri, everywhere()))[0])
    assert action.edit is not None
    assert action.edit.document_changes is None
    check_only_holes_changed(editor, uri, THREE, action)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_holes_behind_astral_characters_are_found_in_every_encoding(
    start_editor: StartEditor, encoding: str
) -> None:
    editor = await start_editor(capabilities([encoding]))
    text = "s = '😀𝔘ñ' + ???\r\nt = ['🏳️‍🌈', ???]\r\n"
    uri = editor.open(text)
    action = await filled(editor, uri, (await editor.actions(uri, everywhere()))[0])
    changed = check_only_holes_changed(editor, uri, text, action)
    assert "\n" not in changed.replace("\r\n", "")


async def test_an_action_without_data_comes_back_as_it_is(editor: Editor) -> None:
    action = CodeAction(title="of another server", command=Command(title="c", command="other.command"), data=None)
    assert await editor.resolve(action) == action


async def test_an_action_of_an_older_text_is_refused(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, everywhere())
    editor.change(uri, 2, "x = 1\n" + THREE)
    with pytest.raises(JsonRpcException, match="the file has changed") as refused:
        await editor.resolve(action)
    assert refused.value.code == REQUEST_FAILED


async def test_a_change_while_the_holes_are_filled_is_noticed(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, everywhere())
    resolving = asyncio.create_task(editor.resolve(action))
    await asyncio.sleep(0)
    editor.change(uri, 2, "x = 1\n" + THREE)
    with pytest.raises(JsonRpcException, match="the file has changed"):
        await resolving


async def test_data_that_is_not_ours_is_refused(editor: Editor) -> None:
    action = CodeAction(title="?", kind="refactor.rewrite.infill", data={"uri": 5})
    with pytest.raises(JsonRpcException) as refused:
        await editor.resolve(action)
    assert refused.value.code == INVALID_PARAMS


BITS = ("x = ", "# ??", "f(", ")", "\n", "\r\n", "\t", "    ", "😀", "𝔘", "'", "\x0b", "\u2028", "é", "[", "]")
PIECES = st.lists(st.lists(st.sampled_from(BITS), max_size=6).map("".join), min_size=2, max_size=4)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES)
async def test_whatever_the_document_the_text_outside_the_holes_is_the_same(editor: Editor, pieces: list[str]) -> None:
    """Unicode, mixed line ends, tabs, no final newline: the edit is made of markers alone."""
    text = " ??? ".join(pieces)
    uri = editor.open(text)
    for action in await editor.actions(uri, everywhere()):
        try:
            check_only_holes_changed(editor, uri, text, await editor.resolve(action))
        except JsonRpcException as error:
            assert error.message == NOTHING


async def test_the_marker_can_be_chosen(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(), {**PATIENT, "marker": "<HOLE>"})
    text = "a = ???\nb = <HOLE>\n"
    uri = editor.open(text)
    action = await filled(editor, uri, (await editor.actions(uri, everywhere()))[0])
    check_only_holes_changed(editor, uri, text, action, "<HOLE>")

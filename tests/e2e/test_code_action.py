"""`textDocument/codeAction` offers immediately, `codeAction/resolve` fills: only the holes change."""

import ast
import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lsprotocol.types import (
    CodeAction,
    CodeActionContext,
    CodeActionParams,
    CodeActionTriggerKind,
    Command,
    Diagnostic,
    Position,
    Range,
    TextDocumentIdentifier,
)
from pygls.exceptions import JsonRpcException

from tests.e2e import reference
from tests.e2e.conftest import PATIENT, StartEditor
from tests.e2e.editor import Editor, capabilities, everywhere, here
from tests.e2e.workbench import Workbench
from tests.workers import ATTEMPTS

pytestmark = pytest.mark.asyncio(loop_scope="session")

THREE = "def area(radius):\n    return ???\n\n\nsides = [???]\nprint(area(2), len(sides), ???)\n"
NOTHING = "the model found nothing that fits here"
FILL = "refactor.rewrite.infill"
FILL_FILE = [f"{FILL}.fillFile"]
REQUEST_FAILED, INVALID_PARAMS = -32803, -32602


async def filled(editor: Editor, uri: str, action: CodeAction) -> CodeAction:
    """The resolved action; the embedded model may need more than one go at finding something that fits."""
    for _ in range(ATTEMPTS):
        try:
            return await editor.resolve(action)
        except JsonRpcException as error:
            assert error.code == REQUEST_FAILED
            assert error.message.startswith(NOTHING)
    raise AssertionError(f"nothing that fits in {ATTEMPTS} attempts")


def check_pinned(text: str, changed: str) -> None:
    """Whatever stands between the markers of `text` stands in `changed`, in order; and something has changed."""
    assert changed != text
    at = 0
    for piece in text.split("???"):
        at = changed.index(piece, at) + len(piece)


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


FUNCTIONS = """\
import math


def area(radius):
    squared = ???
    return ???


def perimeter(radius):
    return 2 * math.pi * radius


print(???)
"""


async def titles(editor: Editor, uri: str, at: Range, only: list[str] | None = None) -> list[str]:
    return [action.title for action in await editor.actions(uri, at, only)]


async def test_offers_are_made_without_asking_the_model(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, here(Position(3, 0)))
    assert (action.title, action.kind) == ("Fill the 3 holes of this file together", f"{FILL}.fillFile")
    assert action.edit is None
    assert action.command is None


async def test_this_hole_this_function_and_this_file_are_offered(editor: Editor) -> None:
    uri = editor.open(FUNCTIONS)
    function, file = "Fill the 2 holes of this function together", "Fill the 3 holes of this file together"
    assert await titles(editor, uri, here(Position(4, 15))) == ["Fill this hole", function, file]
    assert await titles(editor, uri, here(Position(3, 2))) == [function, file]
    assert await titles(editor, uri, here(Position(12, 7))) == ["Fill this hole", file]
    selected = await titles(editor, uri, Range(Position(5, 0), Position(12, 20)))
    assert selected == ["Fill the 2 holes in the selection together", file]


async def test_what_would_fill_the_same_holes_is_offered_once(editor: Editor) -> None:
    uri = editor.open("def area(radius):\n    return ???\n")
    assert await titles(editor, uri, here(Position(1, 11))) == ["Fill this hole"]
    assert await titles(editor, uri, here(Position(0, 1))) == ["Fill the hole of this function"]


async def test_a_body_that_is_missing_is_a_hole(editor: Editor) -> None:
    text = "def area(radius):\n    pass\n\n\ndef side(area):\n    raise NotImplementedError\n"
    uri = editor.open(text)
    offered = await titles(editor, uri, here(Position(1, 6)))
    assert offered == ["Fill this hole", "Fill the 2 holes of this file together"]
    action = await filled(editor, uri, (await editor.actions(uri, everywhere(), [f"{FILL}.fillFile"]))[0])
    changed = reference.applied(text, reference.text_edits(action.edit, uri), editor.encoding)  # type: ignore[arg-type]
    assert changed.startswith("def area(radius):\n    ")
    assert "\n\n\ndef side(area):\n    " in changed
    assert changed != text


async def test_a_function_that_has_a_body_can_be_rewritten(editor: Editor) -> None:
    uri = editor.open(FUNCTIONS.replace("???", "radius"))
    (action,) = await editor.actions(uri, here(Position(9, 8)))
    assert (action.title, action.kind) == ("Rewrite this body", f"{FILL}.writeBody")
    (edit,) = reference.text_edits((await filled(editor, uri, action)).edit, uri)  # type: ignore[arg-type]
    assert edit.range == Range(Position(9, 4), Position(9, 31))


async def test_unasked_light_bulb_stays_off_inside_a_body(editor: Editor) -> None:
    uri = editor.open(FUNCTIONS.replace("???", "radius"))
    automatic = CodeActionTriggerKind.Automatic
    assert await editor.actions(uri, here(Position(9, 8)), trigger=automatic) == []
    (action,) = await editor.actions(uri, here(Position(8, 8)), trigger=automatic)
    assert action.title == "Rewrite this body"


async def test_a_selection_can_be_reworked_in_three_strengths(editor: Editor) -> None:
    uri = editor.open("x = 1\nsides = [one, two]\n")
    actions = await editor.actions(uri, Range(Position(1, 9), Position(1, 17)))
    ways = ("lightly", "halfway", "freely")
    assert [action.title for action in actions] == [f"Rework the selection: {way}" for way in ways]
    assert [action.kind for action in actions] == [f"{FILL}.rework.{way}" for way in ways]


async def test_the_statement_under_a_diagnostic_can_be_repaired(editor: Editor) -> None:
    uri = editor.open("total = 0\nfor item in items:\n    total + = item\n")
    diagnostic = Diagnostic(Range(Position(2, 12), Position(2, 13)), "invalid syntax")
    (action,) = await editor.actions(uri, here(Position(2, 12)), ["quickfix"], diagnostics=[diagnostic])
    assert (action.title, action.kind) == ("Repair this statement", "quickfix.infill")
    assert list(action.diagnostics or ()) == [diagnostic]
    (edit,) = reference.text_edits((await filled(editor, uri, action)).edit, uri)  # type: ignore[arg-type]
    assert (edit.range.start.line, edit.range.end.line) == (2, 2)
    assert edit.new_text != "total + = item"


BROKEN = (
    "    for item in items\n        total += item.price\n",
    "    total = total + (item.price\n",
    "    values = [1, 2, 3\n",
    "    print('total', total))\n",
)


async def test_most_statements_parse_once_they_are_repaired(editor: Editor) -> None:
    parses = 0
    for body in BROKEN:
        text = f"def total_of(items, item, total):\n{body}    return total\n"
        uri = editor.open(text)
        at = Position(1, len(body.split("\n")[0]) - 1)
        (action,) = await editor.actions(uri, here(at), ["quickfix"], diagnostics=[Diagnostic(here(at), "broken")])
        edits = reference.text_edits((await filled(editor, uri, action)).edit, uri)  # type: ignore[arg-type]
        with suppress(SyntaxError):
            ast.parse(reference.applied(text, edits, editor.encoding))
            parses += 1
    assert parses >= len(BROKEN) / 2


async def test_diagnostic_about_a_marker_offers_no_repair(editor: Editor) -> None:
    uri = editor.open("total = ???\n")
    diagnostic = Diagnostic(Range(Position(0, 8), Position(0, 11)), "invalid syntax")
    assert await editor.actions(uri, here(Position(0, 8)), ["quickfix"], diagnostics=[diagnostic]) == []


async def test_a_file_without_holes_offers_nothing(editor: Editor) -> None:
    assert await editor.actions(editor.open("x = 1\n"), here(Position(0, 0))) == []


@pytest.mark.parametrize(
    ("only", "offered"),
    [
        (["refactor"], 1),
        (["refactor.rewrite.infill"], 1),
        (["refactor.rewrite.infill.fillFile"], 1),
        (["quickfix", "refactor"], 1),
        ([""], 1),
        (["quickfix"], 0),
        (["refactor.rewrite.infill.fillHole"], 0),
        (["refactor.rewrite.i"], 0),
        ([], 0),
    ],
)
async def test_only_the_kinds_that_were_asked_for_are_offered(editor: Editor, only: list[str], offered: int) -> None:
    assert len(await editor.actions(editor.open(THREE), here(Position(3, 0)), only)) == offered


async def test_client_that_cannot_resolve_gets_commands(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(lazy=False))
    bench = Workbench(editor)
    uri = bench.open(THREE)
    (action,) = await editor.actions(uri, here(Position(3, 0)))
    assert (action.title, action.data) == ("Fill the 3 holes of this file together", None)
    assert action.command is not None
    for _ in range(ATTEMPTS):
        done = await bench.command(action.command.command, *(action.command.arguments or ()))
        if done["applied"]:
            break
        assert done["reason"].startswith(NOTHING)
    check_pinned(THREE, bench.text(uri))
    bench.type(uri, "x = 1\n" + THREE)
    assert (await bench.command(action.command.command, *(action.command.arguments or ())))["applied"] is False
    shown = [message.message for message in editor.client.messages]
    assert shown[-1] == "infill-ls: the file has changed since the request; ask again", "nobody reads the answer"


async def test_a_client_without_action_literals_is_given_bare_commands(start_editor: StartEditor) -> None:
    can = capabilities(lazy=False)
    can.text_document.code_action = None  # type: ignore[union-attr]
    editor = await start_editor(can)
    context = CodeActionContext(diagnostics=[])
    params = CodeActionParams(TextDocumentIdentifier(editor.open(THREE)), here(Position(3, 0)), context)
    offered = await editor.client.text_document_code_action_async(params)
    assert [type(it) for it in offered or ()] == [Command]


async def test_client_that_cannot_resolve_or_apply_gets_nothing(start_editor: StartEditor) -> None:
    can = capabilities(lazy=False)
    can.workspace.apply_edit = False  # type: ignore[union-attr]
    editor = await start_editor(can)
    assert await editor.actions(editor.open(THREE), everywhere()) == []


async def test_the_holes_are_filled_together_and_nothing_else_changes(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, everywhere(), [FILL])
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
async def test_holes_behind_astral_characters_in_every_encoding(start_editor: StartEditor, encoding: str) -> None:
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
    (action,) = await editor.actions(uri, everywhere(), [FILL])
    editor.change(uri, 2, "x = 1\n" + THREE)
    with pytest.raises(JsonRpcException, match="the file has changed") as refused:
        await editor.resolve(action)
    assert refused.value.code == REQUEST_FAILED


async def test_a_change_while_the_holes_are_filled_is_noticed(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, everywhere(), [FILL])
    resolving = asyncio.create_task(editor.resolve(action))
    await asyncio.sleep(0)
    editor.change(uri, 2, "x = 1\n" + THREE)
    with pytest.raises(JsonRpcException, match="the file has changed"):
        await resolving


async def test_data_that_is_not_ours_is_refused(editor: Editor) -> None:
    action = CodeAction(title="?", kind=f"{FILL}.fillFile", data={"uri": 5})
    with pytest.raises(JsonRpcException) as refused:
        await editor.resolve(action)
    assert refused.value.code == INVALID_PARAMS


@pytest.mark.parametrize(("start", "end"), [(-1, -1), (-9, 4), (4, 2), (0, 10**30)])
@pytest.mark.parametrize("kind", ["fillHole", "fillFunction", "writeBody", "rework", "repair"])
async def test_data_with_a_place_outside_the_text_is_refused(editor: Editor, kind: str, start: int, end: int) -> None:
    place = {"uri": editor.open(THREE), "version": 1, "start": start, "end": end, "holes": []}
    action = CodeAction(title="?", kind=f"{FILL}.fillFile", data={**place, "kind": kind})
    with pytest.raises(JsonRpcException, match="the file has changed"):
        await editor.resolve(action)


BITS = ("x = ", "# ??", "f(", ")", "\n", "\r\n", "\t", "    ", "😀", "𝔘", "'", "\x0b", "\u2028", "é", "[", "]")
PIECES = st.lists(st.lists(st.sampled_from(BITS), max_size=6).map("".join), min_size=2, max_size=4)


@pytest.fixture
def changed_texts() -> Iterator[list[str]]:
    """What a property was tried on, over all of its examples; it is an error if that was nothing."""
    changed = list[str]()
    yield changed
    assert changed, "no example was edited, so nothing was tested"


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(pieces=["x = ", "\ny = [", "]\n"])
@given(pieces=PIECES)
async def test_text_outside_the_holes_never_changes(
    editor: Editor, changed_texts: list[str], pieces: list[str]
) -> None:
    """Unicode, mixed line ends, tabs, no final newline: the edit is made of markers alone."""
    text = " ??? ".join(pieces)
    uri = editor.open(text)
    for action in await editor.actions(uri, everywhere(), [f"{FILL}.fillHole"]):
        try:
            changed_texts.append(check_only_holes_changed(editor, uri, text, await editor.resolve(action)))
        except JsonRpcException as error:
            assert error.message.startswith(NOTHING)


async def test_the_marker_can_be_chosen(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(), {**PATIENT, "marker": "<HOLE>"})
    text = "a = ???\nb = <HOLE>\n"
    uri = editor.open(text)
    action = await filled(editor, uri, (await editor.actions(uri, everywhere()))[0])
    check_only_holes_changed(editor, uri, text, action, "<HOLE>")

"""`textDocument/codeAction` offers immediately, `codeAction/resolve` fills: only the holes change."""

import pytest
from lsprotocol import types
from lsprotocol.types import CodeAction, Diagnostic, Position, Range
from pygls.exceptions import JsonRpcException

from tests.e2e import reference
from tests.e2e.conftest import StartEditor
from tests.e2e.editor import Editor, capabilities, everywhere, here
from tests.e2e.workbench import Workbench
from tests.workers import ATTEMPTS

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


ONE = "def area(radius):\n    return ???\n"
FUNCTION, FILE = "Fill the 2 holes of this function together", "Fill the 3 holes of this file together"
REWORKS = [f"Rework the selection: {way}" for way in ("lightly", "halfway", "freely")]
MISSING = "def area(radius):\n    pass\n\n\ndef side(area):\n    raise NotImplementedError\n"


@pytest.mark.parametrize(
    ("text", "at", "titles"),
    [
        (FUNCTIONS, here(Position(4, 15)), ["Fill this hole", FUNCTION, FILE]),
        (FUNCTIONS, here(Position(3, 2)), [FUNCTION, FILE]),
        (FUNCTIONS, here(Position(12, 7)), ["Fill this hole", FILE]),
        (FUNCTIONS, Range(Position(5, 0), Position(12, 20)), ["Fill the 2 holes in the selection together", FILE]),
        (ONE, here(Position(1, 11)), ["Fill this hole"]),
        (ONE, here(Position(0, 1)), ["Fill the hole of this function"]),
        ("sides = [one, two]\n", Range(Position(0, 9), Position(0, 17)), REWORKS),
        (MISSING, here(Position(1, 6)), ["Fill this hole", "Fill the 2 holes of this file together"]),
        ("x = 1\n", here(Position(0, 0)), []),
    ],
)
async def test_what_can_be_filled_here_is_offered(editor: Editor, text: str, at: Range, titles: list[str]) -> None:
    actions = await editor.actions(editor.open(text), at)
    assert [action.title for action in actions] == titles
    assert all(action.edit is action.command is None for action in actions), "the model has not been asked"


async def test_actions_say_that_a_model_writes_them(start_editor: StartEditor) -> None:
    llm = types.CodeActionTag.LlmGenerated
    for known, tags in (([llm], (llm,)), ([], None)):
        can = capabilities()
        can.text_document.code_action.tag_support = types.CodeActionTagOptions(value_set=known)
        editor = await start_editor(can)
        (action,) = await editor.actions(editor.open(THREE), here(Position(3, 0)))
        assert (action.tags and tuple(action.tags)) == tags


async def test_only_the_kinds_that_were_asked_for_are_offered(editor: Editor) -> None:
    uri = editor.open(THREE)
    for only in (["refactor"], [FILL], FILL_FILE, ["quickfix", "refactor"], [""]):
        assert len(await editor.actions(uri, here(Position(3, 0)), only)) == 1, only
    for only in (["quickfix"], [f"{FILL}.fillHole"], ["refactor.rewrite.i"], []):
        assert await editor.actions(uri, here(Position(3, 0)), only) == [], only


async def test_unasked_light_bulb_stays_off_inside_a_body(editor: Editor) -> None:
    uri = editor.open(FUNCTIONS.replace("???", "radius"))
    automatic = types.CodeActionTriggerKind.Automatic
    assert await editor.actions(uri, here(Position(9, 8)), trigger=automatic) == []
    (action,) = await editor.actions(uri, here(Position(8, 8)), trigger=automatic)
    assert action.title == "Rewrite this body"


async def test_a_function_that_has_a_body_can_be_rewritten(editor: Editor) -> None:
    uri = editor.open(FUNCTIONS.replace("???", "radius"))
    (action,) = await editor.actions(uri, here(Position(9, 8)))
    assert (action.title, action.kind) == ("Rewrite this body", f"{FILL}.writeBody")
    (edit,) = reference.text_edits((await filled(editor, uri, action)).edit, uri)  # type: ignore[arg-type]
    assert edit.range == Range(Position(9, 4), Position(9, 31))


async def test_the_statement_under_a_diagnostic_can_be_repaired(editor: Editor) -> None:
    uri = editor.open("total = 0\nfor item in items:\n    total + = item\n")
    diagnostic = Diagnostic(Range(Position(2, 12), Position(2, 13)), "invalid syntax")
    (action,) = await editor.actions(uri, here(Position(2, 12)), ["quickfix"], diagnostics=[diagnostic])
    assert (action.title, action.kind) == ("Repair this statement", "quickfix.infill")
    assert list(action.diagnostics or ()) == [diagnostic]
    (edit,) = reference.text_edits((await filled(editor, uri, action)).edit, uri)  # type: ignore[arg-type]
    assert (edit.range.start.line, edit.range.end.line) == (2, 2)
    assert edit.new_text != "total + = item"
    marked = editor.open("total = ???\n")  # a complaint about a marker
    diagnostic = Diagnostic(Range(Position(0, 8), Position(0, 11)), "invalid syntax")
    assert await editor.actions(marked, here(Position(0, 8)), ["quickfix"], diagnostics=[diagnostic]) == []


async def test_client_that_cannot_resolve_gets_commands(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(lazy=False))
    bench = Workbench(editor)
    uri = bench.open(THREE)
    (action,) = await editor.actions(uri, here(Position(3, 0)))
    assert (action.title, action.data) == ("Fill the 3 holes of this file together", None)
    for _ in range(ATTEMPTS):
        done = await bench.command(action.command.command, *(action.command.arguments or ()))
        if done["applied"]:
            break
        assert done["reason"].startswith(NOTHING)
    check_pinned(THREE, bench.text(uri))
    bench.type(uri, "x = 1\n" + THREE)
    assert (await bench.command(action.command.command, *(action.command.arguments or ())))["applied"] is False
    shown = [message.message for message in editor.client.messages]
    assert shown[-1] == "infill-ls: the file has changed since the request; try again", "nobody reads the answer"


async def test_client_that_neither_resolves_nor_applies_gets_none(start_editor: StartEditor) -> None:
    can = capabilities(lazy=False)
    can.workspace.apply_edit = False  # type: ignore[union-attr]
    editor = await start_editor(can)
    assert await editor.actions(editor.open(THREE), here(Position(3, 0))) == []


async def test_the_holes_are_filled_together_and_nothing_else_changes(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, everywhere(), [FILL])
    action = await filled(editor, uri, action)
    assert check_only_holes_changed(editor, uri, THREE, action) != THREE
    assert action.edit.document_changes[0].text_document.version == 1  # type: ignore[union-attr]


async def test_a_client_without_versioned_edits_gets_plain_changes(start_editor: StartEditor) -> None:
    editor = await start_editor(capabilities(versioned=False))
    uri = editor.open(THREE)
    action = await filled(editor, uri, (await editor.actions(uri, everywhere()))[0])
    assert action.edit.document_changes is None
    check_only_holes_changed(editor, uri, THREE, action)


async def test_an_action_without_data_comes_back_as_it_is(editor: Editor) -> None:
    action = CodeAction(title="of another server", command=types.Command(title="c", command="other.command"), data=None)
    assert await editor.resolve(action) == action


async def test_an_action_of_an_older_text_is_refused(editor: Editor) -> None:
    uri = editor.open(THREE)
    (action,) = await editor.actions(uri, everywhere(), [FILL])
    editor.change(uri, 2, "x = 1\n" + THREE)
    with pytest.raises(JsonRpcException, match="the file has changed") as refused:
        await editor.resolve(action)
    assert refused.value.code == REQUEST_FAILED


async def test_data_that_is_not_ours_is_refused(editor: Editor) -> None:
    action = CodeAction(title="?", kind=f"{FILL}.fillFile", data={"uri": 5})
    with pytest.raises(JsonRpcException) as refused:
        await editor.resolve(action)
    assert refused.value.code == INVALID_PARAMS

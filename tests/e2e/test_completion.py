"""`textDocument/completion`: the fill at the cursor as a list item, for editors that have no ghost text."""

import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest_asyncio
from lsprotocol import types
from lsprotocol.types import CompletionContext, CompletionItem, CompletionTriggerKind, Position

from tests.e2e import reference
from tests.e2e.conftest import PATIENT, StartEditor, StartRaw
from tests.e2e.editor import CURSOR, Editor, capabilities
from tests.workers import ATTEMPTS

REQUEST_CANCELLED = -32800


def without_ghost_text(encodings: list[str] | None = None, **more: object) -> types.ClientCapabilities:
    item = types.ClientCompletionItemOptions(
        documentation_format=[types.MarkupKind.Markdown],
    )
    can = capabilities(encodings)
    can.text_document.inline_completion = None
    can.text_document.completion = types.CompletionClientCapabilities(completion_item=item, **more)  # type: ignore[arg-type]
    return can


async def asked(editor: Editor, uri: str, at: Position) -> types.CompletionList:
    context = CompletionContext(CompletionTriggerKind.Invoked)
    params = types.CompletionParams(types.TextDocumentIdentifier(uri), at, context)
    found = await editor.client.text_document_completion_async(params)
    assert isinstance(found, types.CompletionList)
    return found


async def offered(editor: Editor, marked: str, language: str = "python") -> tuple[str, int, CompletionItem]:
    """The text without its cursor, the cursor's offset, and the first item there."""
    cursor = marked.index(CURSOR)
    text = marked.replace(CURSOR, "")
    uri = editor.open(text, language)
    for _ in range(ATTEMPTS):
        found = await asked(editor, uri, reference.position(text, cursor, editor.encoding))
        assert found.is_incomplete
        if found.items:
            return text, cursor, found.items[0]
    raise AssertionError(f"nothing offered in {ATTEMPTS} attempts")


def edit_of(item: CompletionItem) -> types.TextEdit:
    assert isinstance(item.text_edit, types.TextEdit)
    return item.text_edit


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def helix(runtime_folder: Path) -> AsyncIterator[Editor]:
    editor = await Editor.start(runtime_folder, without_ghost_text(), PATIENT)
    yield editor
    assert await editor.quit() == 0


async def test_an_item_is_one_exact_edit_of_the_word_at_the_cursor(helix: Editor) -> None:
    text, cursor, item = await offered(helix, "s = '𝔘ñ😀'; label = pri‸\nprint(s)\n")
    edit = edit_of(item)
    assert reference.span(text, edit.range, helix.encoding) == (cursor - 3, cursor)
    assert edit.new_text.startswith(item.filter_text or "?")
    assert item.filter_text == "pri" and item.additional_text_edits is None


async def test_an_item_is_first_shows_all_its_text_and_has_a_command(helix: Editor) -> None:
    _, _, item = await offered(helix, "def area(radius):\n    return ‸\n")
    assert item.preselect
    assert item.sort_text < "0"
    assert item.label_details.description == "infill"
    assert edit_of(item).new_text.startswith(item.label.removesuffix("…"))
    read = await helix.client.completion_item_resolve_async(item)
    assert isinstance(read.documentation, types.MarkupContent)
    assert read.documentation.value == f"```python\n{edit_of(item).new_text}\n```"
    assert attrs.evolve(read, documentation=None) == item
    provider = helix.started.capabilities.execute_command_provider
    assert item.command is not None and provider is not None
    assert item.command.command in provider.commands
    params = types.ExecuteCommandParams(item.command.command, item.command.arguments)
    await helix.client.workspace_execute_command_async(params)


async def test_several_lines_are_one_item_that_is_put_in_as_it_is(helix: Editor) -> None:
    text, cursor, item = await offered(helix, "def area(radius):‸\r\nprint(area(1))\r\n")
    edit = edit_of(item)
    assert reference.span(text, edit.range, helix.encoding) == (cursor, cursor)
    assert edit.new_text.startswith("\r\n    ")
    assert "\n" not in edit.new_text.replace("\r\n", "")
    assert item.insert_text_mode is types.InsertTextMode.AsIs
    assert item.insert_text_format is types.InsertTextFormat.PlainText
    assert item.label.strip()
    assert "\n" not in item.label


async def test_items_that_are_not_ours_come_back_as_they_are(helix: Editor) -> None:
    item = CompletionItem(label="x", data={"id": 5})
    assert await helix.client.completion_item_resolve_async(item) == item


async def test_where_nothing_is_wanted_the_list_is_empty(helix: Editor) -> None:
    assert (await asked(helix, helix.open("name = value\n"), Position(0, 2))).items == (), "in the middle of a word"
    assert (await asked(helix, "file:///project/never-opened.py", Position(0, 0))).items == ()
    assert (await asked(helix, helix.open("TOKEN=\n", "dotenv", name=".env"), Position(0, 6))).items == ()


async def test_the_list_does_not_wait_for_a_model_that_is_loading() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ils-", dir="/tmp"))
    hurried = {"idleSeconds": 1, "deadlineMs": {"automatic": 1, "invoked": 1}}
    editor = await Editor.start(folder, without_ghost_text(), hurried)
    found = await asked(editor, editor.open("def add(a, b):\n    return \n"), Position(1, 11))
    assert found.items == () and found.is_incomplete
    assert (await editor.status()).state in ("starting", "loading")
    assert await editor.quit() == 0
    shutil.rmtree(folder, ignore_errors=True)  # its worker ends by itself


async def test_completions_are_offered_where_wanted(start_editor: StartEditor, editor: Editor, helix: Editor) -> None:
    always = await start_editor(capabilities(), {**PATIENT, "completion": "always"})
    offered = [each.started.capabilities.completion_provider is not None for each in (editor, helix, always)]
    assert offered == [False, True, True]


async def test_an_item_for_a_text_that_has_changed_since_is_not_shown(start_raw: StartRaw) -> None:
    """Also where the change comes in the same breath: the item's place would be another."""
    client, start = await start_raw(), {"line": 0, "character": 0}
    for key in range(3):
        uri = f"file:///batch_{key}.py"
        client.open(uri, "def area(radius):\n    return \n")
        place = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 11}}
        asked = {"jsonrpc": "2.0", "id": key, "method": "textDocument/completion", "params": place}
        change = {"range": {"start": start, "end": start}, "text": "\n"}
        changed = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [change]}
        told = {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": changed}
        client.send_bytes(json.dumps([asked, told]).encode())
        assert (await client.reply(key))["result"]["items"] == []

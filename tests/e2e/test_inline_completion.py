"""`textDocument/inlineCompletion`: suggestions at the cursor, and nowhere else."""

import asyncio

import pytest
from lsprotocol.types import InlineCompletionItem, Position

from tests.e2e import reference
from tests.e2e.conftest import StartEditor
from tests.e2e.editor import CURSOR, Editor, capabilities
from tests.workers import ATTEMPTS


async def offered(editor: Editor, marked: str, language: str = "python") -> tuple[str, int, list[InlineCompletionItem]]:
    """The text without its cursor, the cursor's offset, and what is offered there."""
    cursor = marked.index(CURSOR)
    text = marked.replace(CURSOR, "")
    uri = editor.open(text, language)
    for _ in range(ATTEMPTS):
        items = await editor.complete(uri, reference.position(text, cursor, editor.encoding))
        if items:
            return text, cursor, items
    raise AssertionError(f"nothing offered in {ATTEMPTS} attempts")


def inserted(editor: Editor, text: str, cursor: int, item: InlineCompletionItem) -> str:
    """What the item puts in the place of its range, which must lie on the cursor's line and hold the cursor."""
    assert item.range.start.line == item.range.end.line
    start, end = reference.span(text, item.range, editor.encoding)
    assert start <= cursor <= end
    fill = str(item.insert_text)
    assert fill.startswith(text[start:cursor]), "editors drop what does not begin with what was typed"
    return fill


@pytest.mark.parametrize("typed", ["return ", "", "ret"])
async def test_the_rest_of_a_line_or_body_is_offered(editor: Editor, typed: str) -> None:
    text, cursor, items = await offered(editor, f"def add(a, b):\n    {typed}‸\n\n\nprint(add(1, 2))\n")
    for item in items:
        fill = inserted(editor, text, cursor, item)
        assert fill.strip()
        assert typed != "return " or "\n" not in fill
        assert typed != "ret" or fill.startswith("ret")


async def test_what_the_user_asked_for_comes_with_a_choice(editor: Editor) -> None:
    uri = editor.open("def add(a, b):\n    return \n")
    asked = [await editor.complete(uri, Position(1, 11), invoked=True) for _ in range(6)]
    by_itself = [await editor.complete(uri, Position(1, 11), invoked=False) for _ in range(6)]
    assert max(map(len, asked)) > 1
    assert max(map(len, by_itself)) == 1


async def test_a_language_without_a_grammar_is_filled_too(editor: Editor) -> None:
    text, cursor, items = await offered(editor, "function add(a, b)\n    return ‸\nend\n", "unheard-of")
    assert all(inserted(editor, text, cursor, item) for item in items)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32"])
async def test_positions_are_right_in_every_encoding(start_editor: StartEditor, encoding: str) -> None:
    editor = await start_editor(capabilities([encoding]))
    assert editor.encoding == encoding
    text, cursor, items = await offered(editor, "s = '𝔘ñ😀'; label = pri‸\nprint(s)\n")
    assert text[cursor - 3 : cursor] == "pri"
    for item in items:
        assert inserted(editor, text, cursor, item).startswith("pri")
        assert reference.span(text, item.range, encoding)[0] == cursor - 3  # type: ignore[arg-type]


async def test_a_newer_request_wins(editor: Editor) -> None:
    uri = editor.open("def add(a, b):\n    return \n")
    first, second = await asyncio.gather(*(editor.complete(uri, Position(1, 11), invoked=False) for _ in range(2)))
    assert first == []
    assert len(second) <= 1


async def test_a_result_for_an_older_text_is_dropped(editor: Editor) -> None:
    uri = editor.open("def add(a, b):\n    return \n")
    asked = asyncio.create_task(editor.complete(uri, Position(1, 11)))
    await asyncio.sleep(0)
    editor.change(uri, 2, "def add(a, b):\n    pass\n")
    assert await asked == []


async def test_a_closed_document_is_answered_with_nothing(editor: Editor) -> None:
    assert await editor.complete("file:///project/never-opened.py", Position(0, 0)) == []

"""`infill/draft` during a code action or a command: the text of each hole, step by step."""

from typing import Any

from lsprotocol import types
from lsprotocol.types import Position, Range

from tests.e2e import reference
from tests.e2e.conftest import StartEditor
from tests.e2e.editor import Editor, capabilities, everywhere
from tests.e2e.workbench import Workbench
from tests.workers import ATTEMPTS

CODE = "s = '😀𝔘'\r\ndef area(radius):\r\n    y = ???\r\n    return [radius, ???]\r\n"


def watching(encodings: list[str] | None = None) -> types.ClientCapabilities:
    can = capabilities(encodings)
    can.experimental = {"infillDrafts": True}
    return can


async def drafts_of(bench: Workbench, uri: str, token: str | None = None) -> list[Any]:
    for _ in range(ATTEMPTS):
        bench.drafts.clear()
        if (await bench.fill("fillFile", uri, everywhere(), token=token))["applied"] and bench.drafts:
            return list(bench.drafts)
    raise AssertionError(f"nothing that fits in {ATTEMPTS} attempts")


def ranges(draft: Any) -> list[Range]:
    return [
        Range(Position(it.start.line, it.start.character), Position(it.end.line, it.end.character))
        for it in (hole.range for hole in draft.holes)
    ]


async def test_a_draft_says_what_would_stand_in_each_hole(start_editor: StartEditor) -> None:
    bench = Workbench(await start_editor(watching(["utf-8"])))
    uri = bench.open(CODE)
    for draft in await drafts_of(bench, uri, "mine"):
        assert (draft.uri, draft.version, draft.kind, draft.token) == (uri, 1, "action", "mine")
        assert 1 <= draft.step <= draft.maxSteps
        for hole, range_ in zip(draft.holes, ranges(draft), strict=True):
            start, end = reference.span(CODE, range_, "utf-8")
            assert CODE[start:end] == "???"
            assert "".join(hole.pieces) == hole.text
            assert len(hole.pieces) == len(hole.confidences)
            assert all(0 <= confidence <= 1 for confidence in hole.confidences)
    seen = len(bench.drafts)
    await bench.editor.status()  # whatever was sent before this answer has come
    assert len(bench.drafts) == seen, "no draft follows the answer"


async def test_holes_that_are_near_are_filled_together(start_editor: StartEditor) -> None:
    """On one canvas: the second hole is there in a draft while the first is still being settled."""
    bench = Workbench(await start_editor(watching()))
    uri = bench.open(CODE)
    for _ in range(ATTEMPTS):
        drafts = await drafts_of(bench, uri)
        if any(len(draft.holes) == 2 and min(draft.holes[0].confidences) < 1 for draft in drafts):
            return  # a hole of an earlier canvas would be settled
        bench.type(uri, CODE)
    raise AssertionError("never two holes in one draft")


async def test_who_has_not_asked_for_drafts_gets_none(editor: Editor) -> None:
    bench = Workbench(editor)
    await bench.fill("fillFile", bench.open(CODE), everywhere())
    assert bench.drafts == []

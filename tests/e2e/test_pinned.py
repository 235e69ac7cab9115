"""Pinned means pinned: in any document, an action changes the holes and not one character outside them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsprotocol.types import Range, TextEdit, WorkspaceEdit

from tests.e2e import reference
from tests.e2e.conftest import PATIENT
from tests.e2e.editor import Editor, capabilities, everywhere
from tests.e2e.workbench import Workbench

QUICK = {**PATIENT, "maxSteps": 2, "candidates": {"invoked": 2}}
HOLES = ("???", "def f(a):\n    pass\n", "def g():\r\n    ...\r\n", "class C:\n    def m(self): pass\n")
BITS = (
    *("x = ", "f(", ")", "[", "]", ", ", "'", "# ", "return ", ":", "😀", "𝔘", "é", "\x0b", "\u2028", "\t"),
    *("\n", "\r\n", "\r", "\n    ", *HOLES),
)
TEXTS = st.lists(st.sampled_from(BITS), max_size=8).map("".join)
DOCUMENTS = st.tuples(TEXTS, st.sampled_from(HOLES), TEXTS).map("".join)


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["utf-8", "utf-16", "utf-32"])
async def bench(request: pytest.FixtureRequest, runtime_folder: Path) -> AsyncIterator[Workbench]:
    editor = await Editor.start(runtime_folder, capabilities([request.param]), QUICK)
    assert editor.encoding == request.param
    yield Workbench(editor)
    assert await editor.quit() == 0


def edits_of(edit: WorkspaceEdit, bench: Workbench, text: str) -> list[tuple[int, int]]:
    """The ranges of the last edit, in order and without overlaps."""
    uri = edit.document_changes[0].text_document.uri  # type: ignore[index,union-attr]
    found: list[TextEdit] = reference.text_edits(edit, uri)
    spans = sorted(reference.span(text, one.range, bench.editor.encoding) for one in found)
    reference.pieces_around(text, spans)
    return spans


LIMITED = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@LIMITED
@given(text=DOCUMENTS)
async def test_filling_a_file_changes_only_placeholders(bench: Workbench, text: str) -> None:
    uri = bench.open(text)
    if not (await bench.fill("fillFile", uri, everywhere()))["applied"]:
        assert bench.text(uri) == text
        return
    for start, end in edits_of(bench.edits[-1], bench, text):
        assert text[start:end].strip() in ("???", "pass", "..."), "neither a marker nor a placeholder"


@LIMITED
@given(text=DOCUMENTS, data=st.data())
async def test_reworking_changes_only_the_selection(bench: Workbench, text: str, data: st.DataObject) -> None:
    ends = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    first, last = (reference.position(text, at, bench.editor.encoding) for at in ends)
    uri = bench.open(text)
    answer = await bench.fill("rework", uri, Range(first, last), strength=0.9)
    if not answer["applied"]:
        assert answer["reason"]
        assert bench.text(uri) == text
        return
    ((start, end),) = edits_of(bench.edits[-1], bench, text)
    assert ends[0] <= start < end <= ends[1]
    assert bench.text(uri).startswith(text[:start])
    assert bench.text(uri).endswith(text[end:])

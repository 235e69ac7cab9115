"""Pinned means pinned: in any document, an action changes the holes and not one character outside them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import reference
from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import EVERYWHERE, RawClient, capable
from tests.e2e.user import User

QUICK = {**PATIENT, "maxSteps": 2, "candidates": {"invoked": 2}}
HOLES = ("???", "def f(a):\n    pass\n", "def g():\r\n    ...\r\n", "class C:\n    def m(self): pass\n")
BITS = (
    *("x = ", "f(", ")", "[", "]", ", ", "'", "# ", "return ", ":", "😀", "𝔘", "é", "\x0b", "\u2028", "\t"),
    *("\n", "\r\n", "\r", "\n    ", *HOLES),
)
TEXTS = st.lists(st.sampled_from(BITS), max_size=8).map("".join)
DOCUMENTS = st.tuples(TEXTS, st.sampled_from(HOLES), TEXTS).map("".join)


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["utf-8", "utf-16", "utf-32"])
async def client(request: pytest.FixtureRequest, runtime_folder: Path) -> AsyncIterator[RawClient]:
    can = capable(general__positionEncodings=[request.param])
    client = await RawClient.start(runtime_folder, QUICK, capabilities=can)
    assert client.encoding == request.param
    yield client
    assert await client.quit() == 0


def spans_of(user: User, text: str) -> list[tuple[int, int]]:
    """What the last edit has replaced in this text, in order and without overlaps; nothing else has changed."""
    ((change,),) = [edit["documentChanges"] for edit in user.edits]
    edits = sorted(
        (*reference.span(text, one["range"], user.client.encoding), one["newText"]) for one in change["edits"]
    )
    spans = [(start, end) for start, end, _ in edits]
    pieces = reference.pieces_around(text, spans)
    assert user.text == "".join(map("".join, zip(pieces, [*(new for _, _, new in edits), ""], strict=True)))
    return spans


LIMITED = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@LIMITED
@given(text=DOCUMENTS)
async def test_filling_a_file_changes_only_placeholders(client: RawClient, text: str) -> None:
    user = User(client, text)
    if not (await user.fill("fillFile", *EVERYWHERE))["applied"]:
        assert user.text == text
        return
    for start, end in spans_of(user, text):
        assert text[start:end].strip() in ("???", "pass", "..."), "neither a marker nor a placeholder"


@LIMITED
@given(text=DOCUMENTS, data=st.data())
async def test_reworking_changes_only_the_selection(client: RawClient, text: str, data: st.DataObject) -> None:
    ends = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    user = User(client, text)
    answer = await user.fill("rework", *map(user.place, ends), strength=0.9)
    if not answer["applied"]:
        assert answer["reason"]
        assert user.text == text
        return
    ((start, end),) = spans_of(user, text)
    assert ends[0] <= start < end <= ends[1]

"""The real server keeps the editor's text through any typing. `infill/status` reports its copy."""

import hashlib
import random
from typing import Any

import pytest

from tests.e2e.conftest import StartRaw
from tests.lsp_server.documents.reference import ContentChange, ReferenceText
from tests.lsp_server.texts import PIECES

pytestmark = pytest.mark.asyncio(loop_scope="session")

URI = "file:///project/a%20b/%F0%9F%98%80.py"
EDITS = 600


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_hundreds_of_edits_leave_the_text_that_the_editor_has(start_raw: StartRaw, encoding: str) -> None:
    client = await start_raw(capabilities={"general": {"positionEncodings": [encoding, "utf-16"]}})
    chance = random.Random(encoding)
    reference = ReferenceText("".join(chance.choices(PIECES, k=60)), encoding)
    client.open(URI, reference.text)
    for version in range(2, EDITS // 2):
        changes = [_change(chance) for _ in range(chance.choice([1, 1, 2, 4]))]
        document = {"uri": URI, "version": version}
        client.send(
            {"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": changes}}
        )
        for change in changes:
            reference.apply(change)
        if version % 20 == 0:
            status = await client.status(URI)
            assert status["version"] == version
            assert status["sha256"] == hashlib.sha256(reference.text.encode()).hexdigest()


async def test_unknown_document_has_no_checksum(start_raw: StartRaw) -> None:
    client = await start_raw()
    status = await client.status("file:///p/closed.py")
    assert (status["version"], status["sha256"]) == (None, None)


def _change(chance: random.Random) -> ContentChange:
    start: Any = {"line": chance.randrange(25), "character": chance.randrange(12)}
    end = start if chance.random() < 0.7 else {"line": start["line"] + chance.randrange(2), "character": 3}
    text = chance.choice([*PIECES, "\ude00", "", ""])
    return {"text": text * 30} if chance.random() < 0.01 else {"range": {"start": start, "end": end}, "text": text}

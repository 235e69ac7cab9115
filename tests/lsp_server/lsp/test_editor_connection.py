"""The server's own requests to its editor: the newest answer counts, and nonsense counts as none."""

import asyncio
from typing import Any

import pytest
from lsprotocol import types

from tests.lsp_server.lsp.kept_output import ServerUnderTest

ITEMS = [types.ConfigurationItem(section="infill-ls")]


async def sent(tested: ServerUnderTest, method: str) -> list[Any]:
    for _ in range(5):
        await asyncio.sleep(0)
    return [message for message in tested.output.messages if message["method"] == method]


async def test_only_the_newest_request_for_the_settings_gets_an_answer() -> None:
    tested = ServerUnderTest()
    asking = [asyncio.create_task(tested.server.configuration(ITEMS)) for _ in range(2)]
    older, newer = await sent(tested, "workspace/configuration")
    tested.send(id=newer["id"], result=[{"marker": "new"}])
    tested.send(id=older["id"], result=[{"marker": "old"}])
    dropped, found = await asyncio.gather(*asking)
    assert dropped is None
    assert list(found) == [{"marker": "new"}]


@pytest.mark.parametrize(
    "answer", [{"result": 5}, {"result": {}}, {"error": 5}, {"error": {"code": {}, "message": []}}, {"error": {}}]
)
async def test_nonsense_from_the_client_reaches_the_asker(answer: dict[str, Any]) -> None:
    tested = ServerUnderTest()
    asking = asyncio.create_task(tested.server.configuration(ITEMS))
    applying = asyncio.create_task(tested.server.apply_edit(types.WorkspaceEdit(), "label"))
    for method in ("workspace/configuration", "workspace/applyEdit"):
        (request,) = await sent(tested, method)
        tested.send(id=request["id"], **answer)
    assert await asking is None
    applied, reason = await applying
    assert not applied and "the editor failed to apply the edit" in (reason or "")
    assert not tested.output.replies

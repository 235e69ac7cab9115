"""The server's own messages to its editor: each once, and the newest answer counts."""

import asyncio
from typing import Any

from lsprotocol import types

from lsp_server.lsp.editor_connection import EditorConnection
from tests.lsp_server.lsp.kept_output import ServerUnderTest

ITEMS = [types.ConfigurationItem(section="infill-ls")]


class Connected(ServerUnderTest):
    """A connection whose editor is played by a test."""

    def __init__(self) -> None:
        super().__init__()
        self.editor = EditorConnection(self.server)

    async def sent(self, method: str) -> list[Any]:
        for _ in range(5):
            await asyncio.sleep(0)
        return [message for message in self.output.messages if message["method"] == method]

    def reply(self, request: Any, result: Any) -> None:
        self.send(id=request["id"], result=result)


async def test_only_the_newest_request_for_the_settings_gets_an_answer() -> None:
    connected = Connected()
    asking = [asyncio.create_task(connected.editor.configuration(ITEMS)) for _ in range(2)]
    older, newer = await connected.sent("workspace/configuration")
    connected.reply(newer, [{"marker": "new"}])
    connected.reply(older, [{"marker": "old"}])
    dropped, found = await asyncio.gather(*asking)
    assert dropped is None
    assert list(found) == [{"marker": "new"}]

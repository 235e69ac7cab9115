"""Whatever comes, each request gets one reply, nothing of ours leaks, and the server goes on."""

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.server import InfillServer
from tests.lsp_server.lsp.wild_messages import assert_fit_for_a_client, bodies, owed


class Kept:
    """Keeps what the server writes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def write(self, body: bytes) -> None:
        self.bodies.append(body)

    def close(self) -> None:
        """Nothing to close."""

    @property
    def replies(self) -> list[Any]:
        messages = [json.loads(body, parse_constant=lambda name: 1 / 0) for body in self.bodies]
        return [message for message in messages if "method" not in message]


@settings(max_examples=300, deadline=None)
@given(sent=st.lists(bodies, min_size=1, max_size=6))
async def test_each_request_gets_one_reply_and_the_server_goes_on(sent: list[bytes]) -> None:
    wire = Kept()
    server = InfillServer({"startWorker": False}, wire)
    start = {"id": "start", "method": "initialize", "params": {"capabilities": {}}}
    ask = {"id": "last", "method": "no/such"}
    for body in (json.dumps(start).encode(), *sent, json.dumps(ask).encode()):
        server.receive(body)
    await asyncio.sleep(0)
    await server.leave()
    for reply in wire.replies:
        assert_fit_for_a_client(reply)
    assert Counter(reply["id"] for reply in wire.replies) == owed(sent) + Counter(["start", "last"])

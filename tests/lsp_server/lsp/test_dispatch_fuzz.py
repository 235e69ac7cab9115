"""For any input, each request gets one reply, no internals leak, and the server keeps running."""

import asyncio
import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.server import InfillServer
from tests.lsp_server.lsp.kept_output import KeptOutput
from tests.lsp_server.lsp.wild_messages import assert_fit_for_a_client, bodies, owed


@settings(max_examples=25)
@given(sent=st.lists(bodies, min_size=1, max_size=6))
async def test_each_request_gets_one_reply_and_the_server_goes_on(sent: list[bytes]) -> None:
    output = KeptOutput()
    server = InfillServer({}, output.write)
    start = {"id": "start", "method": "initialize", "params": {"capabilities": {}}}
    ask = {"id": "last", "method": "no/such"}
    for body in (json.dumps(start).encode(), *sent, json.dumps(ask).encode()):
        server.receive(body)
    await asyncio.sleep(0)
    await server.leave()
    for reply in output.replies:
        assert_fit_for_a_client(reply)
    assert Counter(reply["id"] for reply in output.replies) == owed(sent) + Counter(["start", "last"])

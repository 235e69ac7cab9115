"""A busy or unreachable server is asked again, later and not all at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inference.deadline import Deadline
from inference.engine.engine import Engine
from inference.messages import ErrorCode
from inference.remote import address
from inference.remote.http import ModelServerClient, ServerError
from tests.canvas_server import Answer, CanvasServer, canvas_server
from tests.http_server import HttpRequest, HttpServer, listening

_CANVAS = {"diffusion_canvas_length": 1, "diffusion_seed_canvas": [1], "diffusion_pinned": []}
ONE_ROW = {"prompt": [1], "max_tokens": 1, "temperature": 1.0, "vllm_xargs": _CANVAS}


@pytest.fixture
async def server(twin: Engine) -> AsyncIterator[CanvasServer]:
    async with canvas_server(twin) as found:
        found.instead = lambda _: (200, {}, {})
        yield found


@pytest.fixture
async def client(server: CanvasServer) -> AsyncIterator[ModelServerClient]:
    client = ModelServerClient(address.parse_server_url(server.url))
    yield client
    await client.close()


@pytest.mark.parametrize("when", ["0", "-1", "Mon, 01 Jan 99999999999 00:00:00 GMT"])
async def test_a_server_that_is_busy_is_asked_again(server: CanvasServer, client: ModelServerClient, when: str) -> None:
    refusals: list[Answer] = [(503, {"Retry-After": when}, {}), (429, {}, {"error": {"message": "slow down"}})]
    server.instead = lambda _: refusals.pop() if refusals else (200, {}, {})
    assert await client.fetch("/v1/completions", ONE_ROW) == b"{}"
    assert refusals == []


async def test_while_it_asks_for_a_pause_nobody_asks(server: CanvasServer, client: ModelServerClient) -> None:
    server.instead = lambda _: (503, {"Retry-After": "20"}, {"error": {"message": "full"}})
    for _ in range(5):
        with pytest.raises(ServerError, match="too busy.*full") as failed:
            await client.fetch("/v1/completions", ONE_ROW)
    assert failed.value.code is ErrorCode.SERVER
    assert len(server.asked) <= 4, "the first request's attempts, and none by the others"


async def test_each_waiter_gets_its_own_error_and_wakes_alone(server: CanvasServer, client: ModelServerClient) -> None:
    came: list[float] = []

    def welcome(_: dict[str, Any]) -> Answer:
        came.append(asyncio.get_running_loop().time())
        return 200, {}, {}

    for _ in range(3):  # where the machine pauses, all wake together
        server.instead = lambda _: (503, {"Retry-After": "4"}, {})
        impatient = [client.fetch("/v1/completions", ONE_ROW, Deadline(ms)) for ms in (3000, 1000, 1000, 1000)]
        errors = [await asyncio.gather(each, return_exceptions=True) for each in impatient]
        assert all(isinstance(error, ServerError) and error.status == 503 for (error,) in errors)
        assert len({id(error) for (error,) in errors}) == 4
        server.instead = welcome
        came.clear()
        await asyncio.gather(*(client.fetch("/v1/completions", ONE_ROW) for _ in range(12)))
        if max(came) - min(came) > 0.1:
            return
    pytest.fail("all came at once")


class Wordy(HttpServer):
    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 " + b"No,\tnever. " * 3000 + b"\r\nContent-Length: 0\r\n\r\n")


async def test_a_refusal_of_many_words_is_shortened() -> None:
    async with listening(Wordy()) as server:
        client = ModelServerClient(address.parse_server_url(server.url))
        with pytest.raises(ServerError, match="refused a request .400 No, never") as failed:
            await client.fetch("/v1/models")
        await client.close()
    assert str(failed.value).isprintable() and len(str(failed.value)) < 500

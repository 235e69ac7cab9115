"""The worker's reaction to bytes: greetings, messages, and anything else a client may send."""

import asyncio

import msgspec
import pytest

from inference import messages
from inference.messages import (
    LENGTH_BYTES,
    PROTOCOL_VERSION,
    Cancel,
    ErrorCode,
    Failed,
    Hello,
    Outcome,
    encode_frame,
)
from lsp_server.worker.paths import WorkerPaths
from tests.workers import RawClient, fill, is_idle, long_fill


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


def packed(value: object) -> bytes:
    return framed(msgspec.msgpack.encode(value))


async def test_a_greeting_is_answered_with_welcome_and_status(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident, greet=False)
    client.send(Hello(client="tests"))
    welcome, status = await client.receive(), await client.receive()
    assert isinstance(welcome, messages.Welcome)
    assert welcome.protocol == PROTOCOL_VERSION
    assert isinstance(status, messages.Status)
    assert (status.pid, status.model) == (welcome.pid, "embedded")
    assert status.device == "cpu"
    assert status.memory_bytes > 50_000_000
    client.close()


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(encode_frame(Hello(protocol=PROTOCOL_VERSION + 1)), ErrorCode.WRONG_PROTOCOL, id="other protocol"),
        pytest.param(encode_frame(Hello(token="x")), ErrorCode.WRONG_TOKEN, id="unneeded token"),
        pytest.param(encode_frame(messages.StatusRequest()), ErrorCode.BAD_MESSAGE, id="no greeting"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", ErrorCode.BAD_MESSAGE, id="http"),
        pytest.param(framed(b"\xc1\xc1\xc1"), ErrorCode.BAD_MESSAGE, id="not msgpack"),
        pytest.param(framed(b"\x91" * 4000), ErrorCode.BAD_MESSAGE, id="nested"),
        pytest.param(framed(b"x" * 5000), ErrorCode.BAD_MESSAGE, id="long greeting"),
        pytest.param(packed({"type": "hello", "protocol": "1"}), ErrorCode.BAD_MESSAGE, id="wrong type"),
    ],
)
async def test_bad_greeting_ends_the_connection(resident: WorkerPaths, raw: bytes, code: ErrorCode) -> None:
    client = await RawClient.open(resident, greet=False)
    client.send_bytes(raw)
    reply = await client.receive()
    assert (reply.id, reply.code) == ("", code)
    assert reply.message
    assert await client.is_closed()
    client.close()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(encode_frame(fill("")), id="without an id"),
        pytest.param((messages.MAX_MESSAGE_BYTES + 1).to_bytes(LENGTH_BYTES, "big"), id="too long, before its body"),
        pytest.param(framed(b"\xc1"), id="not msgpack"),
        pytest.param(framed(b"\x91" * 100_000), id="nested"),
        pytest.param(framed(b"\x82\xa4type\xa6cancel\xa2id\xa1\xff"), id="not UTF-8"),
        pytest.param(packed({"type": "unheard of", "id": "x"}), id="unknown type"),
        pytest.param(packed({"type": "infill", "id": "x"}), id="no segments"),
        pytest.param(encode_frame(Hello()), id="second greeting"),
    ],
)
async def test_bytes_that_are_not_a_message_end_the_connection(client: RawClient, raw: bytes) -> None:
    client.send_bytes(raw)
    reply = await client.answer()
    is_request = raw == encode_frame(fill(""))
    assert (reply.id, reply.code) == ("", ErrorCode.BAD_REQUEST if is_request else ErrorCode.BAD_MESSAGE)
    assert await client.is_closed()


async def test_half_a_message_and_silence_do_not_disturb_other_clients(resident: WorkerPaths) -> None:
    half = await RawClient.open(resident, greet=False)
    half.send_bytes(encode_frame(Hello())[:-1])
    cut = await RawClient.open(resident)
    cut.send_bytes(encode_frame(fill())[:20])
    cut.close()
    other = await RawClient.open(resident)
    other.send(fill())
    assert not isinstance(await other.final("r"), Failed)
    half.close()
    other.close()


async def test_a_running_id_is_refused_and_the_running_request_goes_on(client: RawClient) -> None:
    client.send(long_fill("same"))
    await client.first_draft()
    client.send(fill("same"))
    assert (await client.final("same")).code is ErrorCode.BAD_REQUEST
    client.send(Cancel("same"))
    assert (await client.final("same")).outcome is Outcome.CANCELLED
    client.send(fill("same"))
    assert not isinstance(await client.final("same"), Failed)


async def test_too_many_requests_are_refused_not_queued(client: RawClient) -> None:
    ids = [str(number) for number in range(70)]
    client.send(*(long_fill(request_id) for request_id in ids))
    refused = [await client.final(request_id) for request_id in ids[64:]]
    assert all(isinstance(reply, Failed) and reply.code is ErrorCode.BAD_REQUEST for reply in refused)
    client.send(*(Cancel(request_id) for request_id in ids))
    await client.becomes(is_idle)


async def test_a_client_that_does_not_read_is_cut_off(resident: WorkerPaths) -> None:
    other = await RawClient.open(resident)
    before = (await other.status()).memory_bytes
    silent = await RawClient.open(resident)
    silent.stream.writer.transport.pause_reading()  # type: ignore[attr-defined]
    long_id = "x" * 100_000
    with pytest.raises(ConnectionError):
        for _ in range(2_000):
            silent.send(fill(long_id, segments=()))
            await silent.stream.writer.drain()
            await asyncio.sleep(0)
    assert (await other.status()).memory_bytes - before < 100_000_000, "of 200,000,000 bytes of answers it keeps few"
    other.close()

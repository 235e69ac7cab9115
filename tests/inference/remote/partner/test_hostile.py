"""A hostile partner's server: nothing is lost, there is one reply, and it blames the server."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from typing import Any

import pytest

from inference.deadline import Deadline
from inference.engine.fim.query import InfillQuery
from inference.messages import REFINED_STRENGTH, Done, ErrorCode, Failed, FilledHoles
from inference.models.family import ModelError
from inference.remote import address
from inference.remote.http import ModelServerClient
from inference.remote.partner.apis import ChatApi, ServerSentEvents, SuffixCompletionApi
from inference.remote.partner.backend import StreamedFill
from tests.inference.remote.asking import ANSWER, KIND_OF, answered, one_hole, partner_at
from tests.partner_server import KINDS, partner_server
from tests.workers import StartWorker, is_idle, until


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def text(words: str, **more: Any) -> bytes:
    return event({"choices": [{"text": words, "delta": {"content": words}, **more}], "content": words})


NONSENSE = {
    "nothing": [],
    "no json": [event(b"}{")],
    "not utf-8": [event(b'{"choices": [{"text": "\xff\xfe", "delta": {"content": "\xff"}}], "content": "\xff"}')],
    "a surrogate": [event(rb'{"choices": [{"text": "\ud800", "delta": {"content": "\ud800"}}], "content": "\ud800"}')],
    "a list": [event([1, 2])],
    "no text": [event({"object": "text_completion"})],
    "a number for a text": [event({"choices": [{"text": 7, "delta": {"content": 7}}], "content": 7})],
    "a text for choices": [event({"choices": "x", "content": ["x"]})],
    "nested without end": [event(b"[" * 100_000)],
    "an error": [event({"error": {"message": "out of\x1b[31m memory", "code": 500}})],
    "an event without end": itertools.repeat(b"data: " + b"x" * 60_000, 100),
    "a long event": [b"data: " + b"x" * 60_000] * 30,
    "an endless body": itertools.repeat(b": ping\n" * 10_000),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_hostile_answer_gets_one_clear_reply(start_worker: StartWorker, kind: str) -> None:
    async with partner_server(kinds=(kind,)) as server:
        client = await start_worker("--model", server.url, "--partner", KIND_OF[kind]).connect()
        await client.becomes(is_idle)
        for name, parts in NONSENSE.items():
            server.raw = lambda _, parts=parts: iter(list(parts) if isinstance(parts, list) else parts)
            client.send(one_hole())
            reply = await client.answer()
            assert isinstance(reply, Failed) and reply.code is ErrorCode.SERVER, name
            assert reply.message.isprintable() and len(reply.message) < 1000 and server.url in reply.message
        server.raw = lambda _: None
        client.send(one_hole())
        assert isinstance(candidate := await client.answer(), FilledHoles) and candidate.texts == (ANSWER,)
        assert isinstance(await client.answer(), Done)
        client.close()


@pytest.mark.parametrize("kind", ["fim", "infill"])
async def test_a_text_without_end_is_cut_and_its_request_aborted(kind: str) -> None:
    async with partner_server(kinds=(kind,)) as server, partner_at(server.url) as partner:
        server.raw = lambda _: (text("".join(f"x{number}{end} " for end in range(50))) for number in itertools.count())
        _, candidates, _ = await answered(partner, one_hole(max_tokens=8))
        assert len(candidates[0].texts[0]) < 20_000 and not candidates[0].complete
        await until(lambda: server.running == 0 and server.aborted == 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reason", ["abort", "content_filter", "error", None])
async def test_an_answer_that_breaks_off_replaces_no_code(kind: str, reason: str | None) -> None:
    selected = "a = 1\nb = 2\nc = 3\nd = 4"
    async with partner_server(kinds=(kind,)) as server, partner_at(server.url) as partner:
        begun = text(("```python\n" if kind == "chat" else "") + "a = 10\nb = 2")
        ended = [text("", finish_reason=reason)] if reason else []
        server.raw = lambda _: [begun, *ended, *([event(b"[DONE]")] if reason and kind != "infill" else [])]
        hole = one_hole(single_line=False, text=selected, strength=REFINED_STRENGTH)
        assert (await answered(partner, hole))[1] == []
        server.raw = lambda _: [begun, event(b"[DONE]")]
        _, candidates, _ = await answered(partner, hole)
        assert [each.texts for each in candidates] == [("a = 10\nb = 2",)], "a stream that says that it is whole"


async def test_an_answer_of_tildes_does_not_hold_the_event_loop() -> None:
    """A fence with such a line took time with the square of its length, minutes for this one."""
    async with partner_server(kinds=("chat",)) as server, partner_at(server.url) as partner:
        for words in ("~" * 200_000 + "`", ("~" * 2_000 + "`\n") * 100):
            server.raw = lambda _, words=words: [text(words), text("", finish_reason="stop")]
            async with asyncio.timeout(30):
                await answered(partner, one_hole(single_line=False))


class AllAtOnce(ModelServerClient):
    """A server whose whole answer is there already: only who reads it lets the event loop go on."""

    async def stream(self, path: str, body: object, deadline: Deadline | None = None) -> AsyncGenerator[bytes, None]:
        yield text("x") * 9_000 + text("", finish_reason="stop")


@pytest.mark.parametrize("make", [partial(ChatApi, "m"), partial(SuffixCompletionApi, "m")])
async def test_slow_stream_does_not_hold_the_loop(make: Callable[..., SuffixCompletionApi]) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    client = AllAtOnce(address.parse_server_url("http://localhost:1"))
    question = InfillQuery("x = ", "\n", single_line=False, max_tokens=9_000)
    answer = StreamedFill(client, make(extended=False), question, None)
    ticking = asyncio.create_task(tick())
    await answer.receive(lambda: None)
    ticking.cancel()
    await client.close()
    assert answer.text == "x" * 9_000
    assert ticks > 30


@pytest.mark.parametrize(
    "logprobs",
    [{"token_logprobs": [5.0]}, {"token_logprobs": [None]}, {"content": [{"logprob": 1e308}]}, {"token_logprobs": []}],
)
async def test_probabilities_that_are_none_are_not_believed(logprobs: Any) -> None:
    async with partner_server(kinds=("fim",)) as server, partner_at(server.url) as partner:
        server.raw = lambda _: [text("x", logprobs=logprobs), text("", finish_reason="stop")]
        _, candidates, _ = await answered(partner, one_hole())
        assert candidates[0].texts == ("x",) and set(candidates[0].confidences[0]) <= {1.0}


@pytest.mark.parametrize(
    "models",
    [
        {"data": [{"id": "x" * 100_000}]},
        {"data": [{"id": "a\x1b[31m"}]},
        {"data": [{"id": 7}]},
        {"data": "x"},
        {"data": []},
        {"data": [{"id": "a"}, {"id": "b"}]},
        [],
    ],
)
async def test_a_list_of_models_that_makes_no_sense_is_told(models: Any) -> None:
    async with partner_server(models=models) as server:
        with pytest.raises(ModelError) as refused:
            async with partner_at(server.url):
                pass
        assert str(refused.value).isprintable() and len(str(refused.value)) < 1000


def fed(parts: Iterable[bytes]) -> list[bytes]:
    events = ServerSentEvents()
    return [each for part in parts for each in events.feed(part)]


def test_events_are_the_same_however_they_are_cut() -> None:
    stream = b": hello\r\ndata: a\r\n\r\ndata:b\ndata: c\n\nevent: x\nid: 7\ndata: d\n\nerror: {}\n\n\n\ndata: un"
    whole = fed([stream])
    assert whole == [b"a", b"b", b"c", b"d", b"{}"]
    for size in (1, 2, 3, 5, 7):
        assert fed(stream[at : at + size] for at in range(0, len(stream), size)) == whole

"""The vLLM client against a hostile server: nothing is lost, and the server is blamed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from inference.engine import Engine, RequestError
from inference.messages import Candidate, Draft, Outcome
from inference.models.family import ModelError
from inference.remote.client import Client
from inference.remote.pause import ServerError
from tests.canvas_server import Answer, CanvasServer, canvas_server
from tests.inference.remote.asking import answered, infiller_at, one_hole, request

HUGE = 1 << 64
_CANVAS = {"diffusion_canvas_length": 1, "diffusion_seed_canvas": [1], "diffusion_pinned": []}
ONE_ROW = json.dumps({"prompt": [1], "max_tokens": 1, "temperature": 1.0, "vllm_xargs": _CANVAS}).encode()


@pytest.fixture
async def server(embedded: Engine) -> AsyncIterator[CanvasServer]:
    async with canvas_server(embedded) as found:
        yield found


def canvas(body: dict[str, Any], token: int, named: dict[str, float] | None = None, **more: Any) -> Answer:
    width = body["vllm_xargs"]["diffusion_canvas_length"]
    rows = [{f"token_id:{token}": -0.01} if named is None else named] * width
    return 200, {}, {"choices": [{"token_ids": [token] * width, "logprobs": {"top_logprobs": rows}}], **more}


class Threads(ThreadPoolExecutor):
    """The loop's threads. Notes what runs there; `after` is called on the loop once the thing of a name is done."""

    def __init__(self) -> None:
        super().__init__(2)
        self.names: set[str] = set()
        self.after: dict[str, Callable[[], None]] = {}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        work = (*args, *getattr(fn, "args", ()))
        found = {name for each in work if (name := getattr(each, "__name__", ""))}
        self.names |= found
        done = super().submit(fn, *args, **kwargs)
        for name in found & self.after.keys():
            done.exception()
            self.after.pop(name)()
        return done


@pytest.mark.parametrize(
    ("told", "why"),
    [
        pytest.param({"usage": {"prompt_tokens": 1 << 40}}, "makes no sense", id="a huge prompt"),
        pytest.param(
            {"usage": {"prompt_tokens_details": {"cached_tokens": HUGE}}}, "makes no sense", id="a huge cache"
        ),
        pytest.param({"token": HUGE}, "makes no sense", id="a huge token"),
        pytest.param({"token": 1 << 20}, "makes no sense", id="an unknown token"),
        pytest.param({"named": {"token_id:" + "1" * 5000: -0.1}}, "makes no sense", id="a long number"),
        pytest.param({"more": " " * (5 << 20)}, "more than", id="longer than any canvas"),
    ],
)
async def test_an_answer_beyond_all_measure_is_refused(server: CanvasServer, told: dict[str, Any], why: str) -> None:
    async with infiller_at(server.url) as infiller:
        server.instead = lambda body: canvas(body, **{"token": 300, **told})
        with pytest.raises(RequestError, match=why):
            await answered(infiller, one_hole())


@pytest.mark.parametrize("token", [0, 3])
async def test_a_row_in_which_no_token_may_stand_gives_no_text(server: CanvasServer, token: int) -> None:
    """The server names and writes special tokens alone."""
    async with infiller_at(server.url) as infiller:
        server.instead = lambda body: canvas(body, token)
        drafts, candidates, done = await answered(infiller, request(*one_hole().segments, drafts=True))
    assert (drafts, candidates, done.outcome) == ([], [], Outcome.COMPLETE)


@pytest.mark.parametrize("said", [{"name": "\x1b[2Jinfill"}, {"name": "i" * 5000}, {"root": "/x\u202e"}])
async def test_a_name_that_no_terminal_should_show_is_refused(server: CanvasServer, said: dict[str, str]) -> None:
    for name, value in said.items():
        setattr(server, name, value)
    with pytest.raises(ModelError, match="does not answer as vLLM does") as failed:
        async with infiller_at(server.url):
            pass
    assert str(failed.value).isprintable() and len(str(failed.value)) < 500


async def test_a_version_that_no_terminal_should_show_is_not_shown(embedded: Engine) -> None:
    async with canvas_server(embedded, knows_pins=False, version="\x1b[2J") as server:
        with pytest.raises(ModelError, match="the server takes no pinned canvas") as failed:
            async with infiller_at(server.url):
                pass
    assert str(failed.value).isprintable()


@pytest.mark.parametrize("when", ["Mon, 01 Jan 99999999999 00:00:00 GMT", "-1"])
async def test_a_date_to_come_back_that_makes_no_sense_is_passed_over(server: CanvasServer, when: str) -> None:
    refusals = [(503, {"Retry-After": when}, {})]
    async with infiller_at(server.url) as infiller:
        server.instead = lambda _: refusals.pop() if refusals else None
        _, candidates, _ = await answered(infiller, one_hole())
    assert candidates


async def test_a_server_that_never_says_what_it_is_is_given_up(server: CanvasServer) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(ModelError, match="has not answered for"):
            server.knows_pins = False  # it thinks about a canvas that it should refuse
            server.hold.clear()
            async with infiller_at(server.url, limit_s=0.5):
                pass


async def test_each_waiter_gets_its_own_error_and_wakes_alone(server: CanvasServer) -> None:
    came: list[float] = []
    busy = True

    def refuse(_: dict[str, Any]) -> Answer | None:
        came.append(asyncio.get_running_loop().time())
        return (503, {"Retry-After": "2" if busy else "0"}, {}) if busy else (200, {}, {})

    client = Client(server.url, is_here=True)
    server.instead = refuse
    first = asyncio.create_task(client.post("/v1/completions", ONE_ROW))
    await server.until(lambda _: bool(came))
    await asyncio.sleep(0.3)
    busy = False
    now = asyncio.get_running_loop().time()
    impatient = [client.post("/v1/completions", ONE_ROW, now + 1) for _ in range(3)]
    errors = await asyncio.gather(*impatient, return_exceptions=True)
    assert all(isinstance(error, ServerError) and error.status == 503 for error in errors)
    assert len(set(map(id, errors))) == 3
    came.clear()
    await asyncio.gather(first, *(client.post("/v1/completions", ONE_ROW) for _ in range(12)))
    await client.close()
    assert max(came) - min(came) > 0.1


async def test_one_answer_among_failures_does_not_make_a_server_well(server: CanvasServer) -> None:
    came: list[float] = []
    left = [200, 503, 200, 503, 503, 503]
    server.instead = lambda _: (came.append(asyncio.get_running_loop().time()), (left.pop(), {}, {}))[1]
    client = Client(server.url, is_here=True)
    for _ in range(2):
        await client.post("/v1/completions", ONE_ROW)
    await client.close()
    assert came[5] - came[4] >= 0.5, "as after a second failure"


async def test_what_takes_long_runs_in_threads(server: CanvasServer) -> None:
    threads = Threads()
    asyncio.get_running_loop().set_default_executor(threads)
    async with infiller_at(server.url) as infiller:
        await answered(infiller, one_hole())
        assert "begin" in threads.names and "canvas_answer" not in threads.names
        server.instead = lambda body: canvas(body, 300, more=" " * (64 << 10))
        await answered(infiller, one_hole())
        assert "canvas_answer" in threads.names


async def test_text_typed_while_planning_is_pinned(server: CanvasServer) -> None:
    threads = Threads()
    asyncio.get_running_loop().set_default_executor(threads)
    async with infiller_at(server.url) as infiller:
        steps = infiller.infill(one_hole())
        for name in ("plan", "_plan"):
            threads.after[name] = lambda: steps.amend(0, "path.strip(")
        events = [event async for event in steps]
        typed, (first, *_) = [each for each in events if isinstance(each, Candidate)], server.asked[1:]
        server.asked.clear()
        await answered(infiller, one_hole(starts_with="path.strip("))
    assert first["vllm_xargs"]["diffusion_pinned"] == server.asked[0]["vllm_xargs"]["diffusion_pinned"]
    assert typed and all(each.texts[0].startswith("path.strip(") for each in typed)
    assert not any(isinstance(event, Draft) for event in events)

"""The vLLM client against a server that answers like vLLM, with the embedded weights (tests/canvas_server.py)."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inference.engine import Engine, RequestError
from inference.messages import Candidate, Done, ErrorCode, Hole, Outcome, Text
from inference.models.family import ModelError
from inference.remote.vllm.served import CanvasModel, load
from tests.canvas_server import CanvasServer, canvas_server
from tests.inference.loaded import TWIN
from tests.inference.remote.asking import BEFORE, EMBEDDED, answered, infiller_at, one_hole, request
from tests.workers import until


@pytest.fixture
async def server(embedded: Engine) -> AsyncIterator[CanvasServer]:
    async with canvas_server(embedded) as found:
        yield found


def pinned_of(body: dict[str, Any]) -> dict[int, int]:
    xargs = body["vllm_xargs"]
    return {number: xargs["diffusion_seed_canvas"][number] for number in xargs["diffusion_pinned"]}


async def test_a_hole_is_filled_with_drafts_before(server: CanvasServer) -> None:
    async with infiller_at(server.url) as infiller:
        drafts, candidates, done = await answered(infiller, request(*one_hole().segments, drafts=True))
    assert infiller.model == "infill"
    assert infiller.device in server.url
    assert candidates[0].texts[0].strip()
    assert "\n" not in candidates[0].texts[0]
    assert drafts[0].step == 1
    assert drafts[-1].step == drafts[-1].max_steps == 3
    assert done.outcome is Outcome.COMPLETE
    assert done.stats.canvases == 1
    assert done.stats.prefix_tokens > 0


async def test_three_holes_are_filled_together(server: CanvasServer) -> None:
    parts = (Text(BEFORE), Hole(single_line=True), Text("\n\n\ndef f(a):\n    "), Hole(), Text("\n\n\nx = "), Hole())
    async with infiller_at(server.url) as infiller:
        _, candidates, done = await answered(infiller, request(*parts, Text("\n")))
    assert len(candidates[0].texts) == 3
    assert all(candidates[0].texts)
    assert done.stats.canvases == 1


async def test_a_pinned_row_that_the_server_changed_is_not_taken(server: CanvasServer) -> None:
    changed = 0

    def change(body: dict[str, Any], ids: list[int]) -> list[int]:
        nonlocal changed
        changed += len(pinned_of(body))
        return [17 if number in pinned_of(body) else id_ for number, id_ in enumerate(ids)]

    async with infiller_at(server.url) as infiller:
        _, honest, _ = await answered(infiller, one_hole(starts_with="file.re"))
        server.change = change
        _, candidates, _ = await answered(infiller, one_hole(starts_with="file.re"))
    assert changed > 0
    assert [each.texts for each in candidates] == [each.texts for each in honest]
    assert all(each.texts[0].startswith("file.re") for each in candidates)


@pytest.mark.parametrize("start", ["file.re", "zzq", "\tif", "é"])
async def test_fills_begin_as_they_must(server: CanvasServer, start: str) -> None:
    async with infiller_at(server.url) as infiller:
        _, candidates, _ = await answered(infiller, one_hole(starts_with=start))
    assert candidates
    assert all(each.texts[0].startswith(start) for each in candidates)


async def test_line_hole_has_no_break_whatever_the_server_says(server: CanvasServer, embedded: Engine) -> None:
    (line_break,) = embedded.loaded.vocabulary.encode("\n")

    def only_line_breaks(body: dict[str, Any]) -> Any:
        width = body["vllm_xargs"]["diffusion_canvas_length"]
        rows = [{f"token_id:{line_break}": -0.01}] * width
        return 200, {}, {"choices": [{"token_ids": [line_break] * width, "logprobs": {"top_logprobs": rows}}]}

    async with infiller_at(server.url) as infiller:
        server.instead = only_line_breaks
        _, candidates, done = await answered(infiller, one_hole())
    assert all("\n" not in each.texts[0] for each in candidates)
    assert done.outcome is Outcome.COMPLETE


async def test_rework_keeps_as_much_as_its_strength_says(server: CanvasServer) -> None:
    text = "file.read().splitlines()"
    noised = []
    async with infiller_at(server.url) as infiller:
        _, none, _ = await answered(infiller, one_hole(text=text, strength=0.0))
        assert len(server.asked) == 1, "only the question how wide the canvas is"
        for strength in (0.4, 0.99):
            server.asked.clear()
            _, reworked, _ = await answered(infiller, one_hole(text=text, strength=strength))
            noised.append(server.asked[0]["vllm_xargs"]["diffusion_seed_canvas"].count(3))
    assert none[0].texts == (text,)
    assert 0 < noised[0] < noised[1], "some of its tokens are noise, and some are not"
    assert reworked[0].texts


async def test_what_is_typed_meanwhile_is_pinned(server: CanvasServer) -> None:
    async with infiller_at(server.url) as infiller:
        server.hold.clear()
        steps = infiller.infill(one_hole())
        events = asyncio.create_task(_all(steps))
        await server.until(lambda it: it.running > 0)
        steps.amend(0, "path.strip(")
        await server.until(lambda it: it.aborted > 0)
        server.hold.set()
        candidates = [event for event in await events if isinstance(event, Candidate)]
    assert candidates
    assert all(each.texts[0].startswith("path.strip(") for each in candidates)


async def test_what_is_typed_and_agrees_is_not_asked_for_again(server: CanvasServer) -> None:
    async with infiller_at(server.url) as infiller:
        _, before, _ = await answered(infiller, one_hole())
        typed = before[0].texts[0][:1]
        count = len(server.asked)
        steps = infiller.infill(request(*one_hole().segments, drafts=True))
        events = [event async for event in _amended(steps, typed)]
        candidates = [event for event in events if isinstance(event, Candidate)]
    assert all(each.texts[0].startswith(typed) for each in candidates)
    assert len(server.asked) <= 2 * count - 1, "it restarted a canvas"
    assert server.asked[-1]["prompt"] == server.asked[1]["prompt"]


async def test_at_the_deadline_what_stands_is_the_answer(server: CanvasServer) -> None:
    reads = 0

    def slow_after_some(body: dict[str, Any]) -> None:
        nonlocal reads
        reads += 1
        if reads > 7:
            server.hold.clear()

    async with infiller_at(server.url) as infiller:
        server.instead = slow_after_some
        _, candidates, done = await answered(infiller, request(*one_hole().segments, max_steps=8), within_s=3.0)
    assert done.outcome is Outcome.DEADLINE
    assert candidates[0].texts[0]
    assert not candidates[0].complete


async def test_deadline_without_an_answer_stops_the_server(server: CanvasServer) -> None:
    async with infiller_at(server.url) as infiller:
        server.hold.clear()
        began = time.monotonic()
        _, candidates, done = await answered(infiller, one_hole(), within_s=0.5)
        assert time.monotonic() - began < 60
        await server.until(lambda it: it.aborted > 0)
    assert candidates == []
    assert done.outcome is Outcome.DEADLINE


async def test_cancelling_aborts_what_the_server_does(server: CanvasServer) -> None:
    async with infiller_at(server.url) as infiller:
        server.hold.clear()
        steps = infiller.infill(one_hole())
        waiting = asyncio.create_task(_all(steps))
        await server.until(lambda it: it.running > 0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await steps.aclose()
        await server.until(lambda it: it.aborted > 0 and it.running == 0)


async def test_a_server_that_is_busy_is_asked_again(server: CanvasServer) -> None:
    refusals = [(503, {"Retry-After": "0"}, {}), (429, {}, {"error": {"message": "slow down"}})]
    async with infiller_at(server.url) as infiller:
        server.instead = lambda _: refusals.pop() if refusals else None
        _, candidates, _ = await answered(infiller, one_hole())
    assert candidates
    assert refusals == []


async def test_busy_server_is_asked_again_later(server: CanvasServer) -> None:
    busy = True
    async with infiller_at(server.url) as infiller:
        server.instead = lambda _: (503, {"Retry-After": "20"}, {"error": {"message": "full"}}) if busy else None
        for _ in range(5):
            with pytest.raises(RequestError, match="too busy.*full") as failed:
                await answered(infiller, one_hole())
        assert failed.value.code is ErrorCode.SERVER
        assert len(server.asked) <= 1 + 4, "the first request's attempts, and none by the others"


@pytest.mark.parametrize(
    ("status", "said"), [(401, "INFILL_LS_SERVER_TOKEN"), (307, "elsewhere"), (500, "log"), (400, "boom")]
)
async def test_other_refusals_say_what_to_do(server: CanvasServer, status: int, said: str) -> None:
    async with infiller_at(server.url) as infiller:
        server.instead = lambda _: (status, {"Location": "http://127.0.0.1:1/"}, {"error": {"message": "boom"}})
        with pytest.raises(RequestError, match=said) as failed:
            await answered(infiller, one_hole())
    assert failed.value.code is ErrorCode.SERVER


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"choices": []},
        {"choices": [{"token_ids": [1], "logprobs": {"top_logprobs": [{}]}}]},
        {"choices": [{"token_ids": "x", "logprobs": None}]},
        {"choices": [{"token_ids": [5] * 88, "logprobs": {"top_logprobs": [{"the": -1.0}] * 88}}]},
    ],
)
async def test_an_answer_without_sense_is_an_error(server: CanvasServer, answer: Any) -> None:
    async with infiller_at(server.url) as infiller:
        server.instead = lambda _: (200, {}, answer)
        with pytest.raises(RequestError, match="makes no sense"):
            await answered(infiller, one_hole())


async def test_a_server_that_cannot_hold_pins_is_refused(embedded: Engine) -> None:
    async with canvas_server(embedded, knows_pins=False) as old:
        with pytest.raises(ModelError, match=r"takes no pinned canvas.*0\.32"):
            async with infiller_at(old.url):
                pass


async def test_a_model_that_the_server_does_not_have_is_named(server: CanvasServer) -> None:
    with pytest.raises(ModelError, match="has no model other; it has infill"):
        async with infiller_at(server.url, server_model="other"):
            pass


async def test_a_tokenizer_that_is_not_here_has_to_be_named(server: CanvasServer) -> None:
    server.root = "/nowhere/checkpoint"
    with pytest.raises(ModelError, match="server.tokenizer"):
        async with infiller_at(server.url, tokenizer=None):
            pass


async def test_a_narrow_canvas_and_a_short_context_are_kept_to(embedded: Engine) -> None:
    async with canvas_server(embedded, canvas_tokens=32, max_model_len=96) as small, infiller_at(small.url) as infiller:
        _, candidates, _ = await answered(infiller, one_hole(max_tokens=20))
    assert candidates
    assert all(body["vllm_xargs"]["diffusion_canvas_length"] <= 32 for body in small.asked[1:])
    assert all(len(body["prompt"]) <= 64 for body in small.asked)


async def _all(steps: Any) -> list[Any]:
    return [event async for event in steps]


async def _amended(steps: Any, text: str) -> AsyncIterator[Any]:
    typed = False
    async for event in steps:
        if not typed and not isinstance(event, Candidate | Done) and event.texts[0].startswith(text):
            typed = True
            steps.amend(0, text)
        yield event


async def test_a_model_of_uniform_noise_takes_all_steps_in_one_request(twin: Engine) -> None:
    """Its noise is ours at the first step, and the same for the same seed."""
    async with canvas_server(twin, canvas_tokens=64) as server, infiller_at(server.url, TWIN) as infiller:
        _, candidates, _ = await answered(infiller, one_hole(min_tokens=4, max_tokens=4, starts_with="file"))
        await answered(infiller, one_hole(min_tokens=4, max_tokens=4, starts_with="file"))
    first, second = server.asked[1:]
    assert first == second
    assert first["vllm_xargs"]["diffusion_max_steps"] == 3
    assert len(set(first["vllm_xargs"]["diffusion_seed_canvas"])) > 10
    assert candidates[0].texts[0].startswith("file")


async def test_what_goes_wrong_with_a_probe_is_said_as_it_is(twin: Engine) -> None:
    async with canvas_server(twin, canvas_tokens=64) as server, infiller_at(server.url) as infiller:
        server.instead = lambda _: (400, {}, {"error": {"message": "boom"}})
        with pytest.raises(RequestError, match="boom"):
            await answered(infiller, one_hole(max_tokens=24))
        server.instead = lambda _: None
        server.hold.clear()
        _, candidates, done = await answered(infiller, one_hole(max_tokens=24), within_s=0.3)
    assert candidates == []
    assert done.outcome is Outcome.DEADLINE


async def test_another_server_behind_the_url_is_met_after_it_refused(server: CanvasServer) -> None:
    """It was restarted with another name, a narrower canvas and less room."""
    async with infiller_at(server.url) as infiller:
        assert (await answered(infiller, one_hole()))[1]
        server.name, server.canvas_tokens, server.max_model_len = "other", 32, 512
        server.instead = lambda body: None if body["model"] == server.name else (404, {}, {})
        before = len(server.heads)
        with pytest.raises(RequestError, match="refused"):
            await answered(infiller, one_hole())
        await until(lambda: infiller.model == "other")
        assert (await answered(infiller, one_hole()))[1]
        assert len([head for head in server.heads[before:] if head.startswith("GET /v1/models ")]) == 1
    assert server.asked[-1]["vllm_xargs"]["diffusion_canvas_length"] <= 32


async def test_a_name_is_shown_cut_and_sent_as_it_is(server: CanvasServer) -> None:
    server.name = "infill" + "x" * 400
    async with infiller_at(server.url) as infiller:
        await answered(infiller, one_hole())
    assert infiller.model == server.name[:100]
    assert server.asked[-1]["model"] == server.name


@pytest.mark.parametrize("url", ["https://gpu.example.com", "http://a.localhost:8000"])
def test_a_folder_that_another_machine_names_is_not_opened_here(url: str, tmp_path: Path) -> None:
    served = CanvasModel("infill", str(EMBEDDED), "0.32.0", 128, 2048)
    assert load(served, None, "http://localhost:8000").vocabulary
    with pytest.raises(ModelError, match="set server.tokenizer or --server-tokenizer"):
        load(served, None, url)
    assert load(served, str(EMBEDDED), url).vocabulary

"""The vLLM client against a server that answers like vLLM, with the twin's weights (tests/canvas_server.py)."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inference.engine.engine import Engine
from inference.engine.errors import RequestError
from inference.messages import ErrorCode, Hole, NextEditRequest, Outcome, PinnedText
from inference.models import registry
from inference.models.family import ModelError
from inference.remote.server_backend import ServedModel
from inference.remote.vllm import load_tokenizer_and_settings
from tests.canvas_server import Answer, CanvasServer, canvas_server
from tests.inference.loaded import TWIN
from tests.inference.remote.asking import BEFORE, answered, fills, infiller_at, job, one_hole, request
from tests.workers import until

EMBEDDED = Path(__file__).parents[3] / "inference" / "embedded"
HUGE = 1 << 64


@pytest.fixture
async def server(twin: Engine) -> AsyncIterator[CanvasServer]:
    async with canvas_server(twin, canvas_tokens=64) as found:
        yield found


def pinned_of(body: dict[str, Any]) -> dict[int, int]:
    xargs = body["vllm_xargs"]
    return {number: xargs["diffusion_seed_canvas"][number] for number in xargs["diffusion_pinned"]}


def canvas(body: dict[str, Any], token: int, named: dict[str, float] | None = None, **more: Any) -> Answer:
    width = body["vllm_xargs"]["diffusion_canvas_length"]
    rows = [{f"token_id:{token}": -0.01} if named is None else named] * width
    return 200, {}, {"choices": [{"token_ids": [token] * width, "logprobs": {"top_logprobs": rows}}], **more}


# --- Fills ---


async def test_holes_are_filled_together_the_same_with_a_seed(server: CanvasServer) -> None:
    parts = (
        PinnedText(BEFORE),
        Hole(single_line=True),
        PinnedText("\n\n\ndef f(a):\n    "),
        Hole(max_tokens=8),
        PinnedText("\n"),
    )
    async with infiller_at(server.url) as infiller:
        assert infiller.status_fields()["model"] == "infill" and infiller.status_fields()["device"] in server.url
        drafts, candidates, done = await answered(infiller, request(*parts, drafts=True))
        assert len(candidates[0].texts) == 2 and "\n" not in candidates[0].texts[0]
        assert (drafts, done.outcome, done.stats.canvases) == ([], Outcome.COMPLETE, 1)
        assert done.stats.prefix_tokens > 0
        server.asked.clear()
        for _ in range(2):
            await answered(infiller, one_hole(min_tokens=4, max_tokens=4, starts_with="file"))
        with pytest.raises(RequestError, match="no longer fit"):
            infiller.replies(job(NextEditRequest("n", "x = 1\n", ())))
    first, second = server.asked
    assert first == second and first["vllm_xargs"]["diffusion_max_steps"] == 3
    assert len(set(first["vllm_xargs"]["diffusion_seed_canvas"])) > 10, "noise"


@pytest.mark.parametrize("start", ["file.re", "zzq", "\tif", "é"])
async def test_fills_begin_as_they_must_whatever_the_server_changes(server: CanvasServer, start: str) -> None:
    def change(body: dict[str, Any], ids: list[int]) -> list[int]:
        return [17 if number in pinned_of(body) else id_ for number, id_ in enumerate(ids)]

    asked = request(*one_hole(starts_with=start, min_tokens=4, max_tokens=4).segments, max_steps=1)
    async with infiller_at(server.url) as infiller:
        honest = await fills(infiller, asked)
        server.change = change
        assert await fills(infiller, asked) == honest
    assert honest and all(texts[0].startswith(start) for texts in honest)


async def test_what_may_not_stand_in_a_hole_never_does(server: CanvasServer, twin: Engine) -> None:
    (line_break,) = twin.loaded.vocabulary.encode("\n")
    async with infiller_at(server.url) as infiller:
        for token in (line_break, *twin.loaded.vocabulary.special_ids[:2], 1 << 20):
            server.instead = lambda body, token=token: canvas(body, token)
            _, candidates, done = await answered(infiller, one_hole())
            assert not any(each.texts[0].strip() or "\n" in each.texts[0] for each in candidates)
            assert done.outcome is Outcome.COMPLETE


async def test_rework_keeps_as_much_as_its_strength_says(server: CanvasServer) -> None:
    text = "file.read().splitlines()"
    pins = []
    async with infiller_at(server.url) as infiller:
        assert await fills(infiller, one_hole(text=text, strength=0.0)) == [(text,)]
        assert len(server.asked) == 1, "only the question how wide the canvas is"
        for strength in (0.4, 0.99):
            server.asked.clear()
            assert await fills(infiller, one_hole(text=text, strength=strength))
            pins.append(len(pinned_of(server.asked[0])))
    assert pins[0] > pins[1], "some of its tokens are noise, and some are not"


async def test_at_the_deadline_what_is_there_is_the_answer(server: CanvasServer) -> None:
    async with infiller_at(server.url) as infiller:
        server.instead = lambda _: server.hold.clear()  # after one
        for within_s in (1, 10, 100):  # for that one
            server.hold.set()
            _, candidates, done = await answered(infiller, one_hole(), within_s=within_s)
            if candidates:
                break
        assert done.outcome is Outcome.DEADLINE
        assert candidates and not candidates[0].complete
        server.instead = lambda _: None
        _, candidates, done = await answered(infiller, one_hole(), within_s=0.3)
        assert (candidates, done.outcome) == ([], Outcome.DEADLINE)
        await until(lambda: server.aborted > 0 and server.running == 0)


async def test_cancelling_aborts_what_the_server_does(server: CanvasServer) -> None:
    async with infiller_at(server.url) as infiller:
        server.hold.clear()
        waiting = asyncio.create_task(answered(infiller, one_hole()))
        await until(lambda: server.running > 0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await until(lambda: server.aborted > 0 and server.running == 0)


async def test_a_narrow_canvas_and_a_short_context_are_kept_to(twin: Engine) -> None:
    async with canvas_server(twin, canvas_tokens=32, max_model_len=96) as small, infiller_at(small.url) as infiller:
        assert await fills(infiller, one_hole(max_tokens=20))
    assert all(body["vllm_xargs"]["diffusion_canvas_length"] <= 32 for body in small.asked[1:])
    assert all(len(body["prompt"]) <= 64 for body in small.asked)


# --- Refusals, and answers that make no sense ---


@pytest.mark.parametrize(
    ("status", "said"), [(401, "INFILL_LS_SERVER_TOKEN"), (307, "redirects"), (500, "log"), (400, "boom")]
)
async def test_refusals_say_what_to_do(server: CanvasServer, status: int, said: str) -> None:
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
        {"token": HUGE},
        {"token": 300, "named": {"token_id:" + "1" * 5000: -0.1}},
        {"token": 300, "more": " " * (5 << 20)},
    ],
    ids=lambda answer: str(answer)[:40],
)
async def test_an_answer_without_sense_is_an_error(server: CanvasServer, answer: Any) -> None:
    async with infiller_at(server.url) as infiller:
        server.instead = lambda body: canvas(body, **answer) if "token" in answer else (200, {}, answer)
        with pytest.raises(RequestError, match="invalid answer|more than"):
            await answered(infiller, one_hole())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"knows_pins": False}, r"takes no pinned canvas.*0\.32"),
        ({"name": "\x1b[2Jinfill"}, "is not a vLLM 0.32"),
        ({"name": "i" * 5000}, "is not a vLLM 0.32"),
        ({"root": "/x\u202e"}, "is not a vLLM 0.32"),
        ({"canvas_tokens": 64, "max_model_len": 64}, "leaves no room"),
    ],
)
async def test_a_useless_server_is_refused_with_the_reason(twin: Engine, said: dict[str, Any], why: str) -> None:
    async with canvas_server(twin, **{"canvas_tokens": 64, **said}) as server:
        with pytest.raises(ModelError, match=why) as failed:
            async with infiller_at(server.url):
                pass
    assert str(failed.value).isprintable() and len(str(failed.value)) < 500


async def test_a_server_that_never_says_what_it_is_is_given_up(server: CanvasServer) -> None:
    server.knows_pins = False  # it thinks about a canvas that it should refuse
    server.hold.clear()
    with pytest.raises(ModelError, match="has not answered for"):
        async with infiller_at(server.url, limit_s=0.5):
            pass


async def test_a_wrong_name_or_tokenizer_is_named(server: CanvasServer) -> None:
    server.root = "/nowhere/checkpoint"
    for options, why in (
        ({"server_model": "other"}, "has no model other; it has infill"),
        ({"tokenizer": None}, "server.tokenizer"),
        ({"tokenizer": EMBEDDED}, "knows only a mask token"),
    ):
        with pytest.raises(ModelError, match=why):
            async with infiller_at(server.url, **options):
                pass


async def test_another_server_behind_the_url_is_met_after_it_refused(server: CanvasServer) -> None:
    """It was restarted with another name, a narrower canvas and less room."""
    async with infiller_at(server.url) as infiller:
        assert await fills(infiller, one_hole())
        server.name, server.canvas_tokens, server.max_model_len = "other" + "x" * 400, 32, 512
        server.instead = lambda body: None if body["model"] == server.name else (404, {}, {})
        before = len(server.requests)
        with pytest.raises(RequestError, match="refused"):
            await answered(infiller, one_hole())
        await until(lambda: infiller.model == server.name[:100])
        assert await fills(infiller, one_hole())
        assert [request.path for request in server.requests[before:]].count("/v1/models") == 1
    assert server.asked[-1]["vllm_xargs"]["diffusion_canvas_length"] <= 32


@pytest.mark.parametrize(("stated", "width"), [({}, 256), ({"canvas_length": None}, 256), ({"canvas_length": 64}, 64)])
def test_no_canvas_is_wider_than_the_checkpoint_knows(tmp_path: Path, stated: dict[str, Any], width: int) -> None:
    shutil.copy(TWIN / "tokenizer.json", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(stated))
    for served in (width, 10**12):
        found = load_tokenizer_and_settings(ServedModel("infill", str(tmp_path)), served, None, "http://localhost:8000")
        assert found.infill_config.canvas_tokens == width


@pytest.mark.parametrize("url", ["https://gpu.example.com", "http://a.localhost:8000"])
def test_a_folder_that_another_machine_names_is_not_opened_here(url: str) -> None:
    found = ServedModel("infill", str(TWIN), 2048)
    assert load_tokenizer_and_settings(found, 64, None, "http://localhost:8000").vocabulary
    with pytest.raises(ModelError, match="set server.tokenizer or --server-tokenizer"):
        load_tokenizer_and_settings(found, 64, None, url)
    assert load_tokenizer_and_settings(found, 64, str(TWIN), url).vocabulary


@pytest.mark.parametrize("model", ["embedded", str(TWIN)])
def test_a_checkpoint_states_how_it_is_sampled(model: str) -> None:
    """vLLM reads it from generation_config.json, and ends at its start where it is not all there."""
    found = registry.open_checkpoint(model)
    stated, sampler = json.loads((found.folder / "generation_config.json").read_text()), found.infill_config.sampler
    assert stated["sampler_config"]["_cls_name"] == "EntropyBoundSamplerConfig"
    assert stated["sampler_config"]["entropy_bound"] == sampler.entropy_bound > 0
    assert stated["max_denoising_steps"] == sampler.max_steps
    assert (stated["t_min"], stated["t_max"]) == (sampler.t_min, sampler.t_max)
    assert stated["stability_threshold"] == sampler.stability
    assert stated["confidence_threshold"] == sampler.confidence

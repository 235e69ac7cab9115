"""The other model is asked the same, silently, and both are compared with what is saved. Scripted workers answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inference.messages import ErrorCode
from lsp_server.shadow.sampler import model_name, similarity
from lsp_server.usage.statistics import STATE_VARIABLE, usage_file
from lsp_server.worker import WorkerOptions
from tests.lsp_server.refine.test_refiner import TEXT, Scene, scene
from tests.lsp_server.test_session import URI
from tests.lsp_server.usage.records import pairs, pairs_once
from tests.workers import until


@asynccontextmanager
async def sampled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sample: float = 1.0, **more: object
) -> AsyncIterator[Scene]:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    async with scene(monkeypatch, shadow={"sample": sample}, **more) as here:
        yield here


async def asked_twice(here: Scene, other: str, main: str = "first(1)") -> None:
    """The user sees `main`, and the partner has been asked the same, which says `other`."""
    here.partner.fills = [other]
    await here.suggestion(here.model, main)
    await until(lambda: here.partner.requests)


async def test_both_are_compared_with_what_is_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with sampled(monkeypatch, tmp_path) as here:
        await asked_twice(here, "second(2)")
        (asked,) = here.partner.requests
        assert (asked.segments[0].text, asked.background) == (TEXT[:4], True)
        here.replace(4, "x = second(2)")
        here.session.features.saved(URI)
        (pair,) = await pairs_once(1)
        assert (pair.language, pair.main_model, pair.outcome) == ("python", "auto", "answered")
        assert pair.other_similarity == 1.0 and pair.main_similarity == similarity("first(1)", "second(2)")
        assert b"second" not in usage_file().read_bytes()


async def test_a_lost_place_is_not_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with sampled(monkeypatch, tmp_path) as here:
        await asked_twice(here, "second(2)")
        here.replace(4, "y = other")
        here.session.features.saved(URI)
        (pair,) = await pairs_once(1)
        assert (pair.outcome, pair.main_similarity) == ("answered", None)


async def test_a_failure_is_recorded_and_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with sampled(monkeypatch, tmp_path) as here:
        await here.suggestion(here.model, "first(1)")
        await until(lambda: here.partner.requests)
        here.partner.refuse(ErrorCode.MODEL, "unusable")
        (pair,) = await pairs_once(1)
        assert (pair.outcome, pair.other_ms) == ("failed", None)


@pytest.mark.parametrize("why", ["refined", "closed", "statistics", "sample"])
async def test_what_is_out_of_the_sample_leaves_no_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str
) -> None:
    off = {"statistics": "off"} if why == "statistics" else {}
    async with sampled(monkeypatch, tmp_path, 0.0 if why == "sample" else 1.0, **off) as here:
        here.partner.fills = ["second(2)"]
        draft = await here.suggestion(here.model, "first(1)")
        if why == "refined":
            await here.refine(draft)
            here.partner.requests.clear()
            await here.accept_first()
        elif why == "closed":
            here.session.forget(URI)
            here.session.features.saved(URI)  # it may come with the same bytes
        await asyncio.sleep(1.5)
        assert here.partner.requests == []
    assert pairs() == []


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (WorkerOptions("/home/me/models/mine"), "mine"),
        (WorkerOptions("http://here:8000/v1"), "here:8000"),
        (WorkerOptions("http://here:8000", server_model="gemma"), "gemma"),
    ],
)
def test_a_name_shows_no_path(options: WorkerOptions, name: str) -> None:
    assert model_name(options) == name


def test_similarity_ignores_outer_space_and_long_texts_are_quick() -> None:
    assert similarity(" a\n", "a") == 1.0
    assert 0 < similarity("one two three " * 1000, "one two tree " * 1000) < 1

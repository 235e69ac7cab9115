"""A served edit model: one request for a rewrite, and an answer that may be anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from inference.engine.errors import RequestError
from inference.messages import Done, Hunk, InfillRequest, NextEditRequest, NextEdits, Outcome, PinnedText
from inference.models.family import ModelError
from inference.remote.edit_model import EditModelBackend
from inference.remote.http import ServerError
from tests.http_server import HttpRequest, HttpServer, listening, response
from tests.inference.remote.asking import job, served_at
from tests.workers import until

TEXT = "def total(items):\n    return sum(item)\n"
ASKED = NextEditRequest("r", TEXT, (Hunk(0, "def total(item):\n", "def total(items):\n"),), "python", "a.py", len(TEXT))
NEW = TEXT.replace("item)", "items)", 1).replace("sum(item)", "sum(items)")


@dataclass
class EditServer(HttpServer):
    """Answers each prompt with `answer`; refuses those that ask for probabilities unless it `tells_chances`."""

    answer: Any = None
    tells_chances: bool = True
    names: tuple[str, ...] = ("zeta-2-q4",)
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.path == "/v1/models":
            said: Any = {"data": [{"id": name} for name in self.names]}
        else:
            self.asked.append(request.json)
            said = self.answer
            if said is None:
                await self.unless_gone(reader, asyncio.Event().wait())
            if "logprobs" in request.json and not self.tells_chances:
                writer.write(response(400, {"error": {"message": "logprobs is not supported"}}))
                return
        writer.write(response(200, said))


@asynccontextmanager
async def edit_model(kind: str = "auto", **server: Any) -> AsyncIterator[tuple[EditServer, EditModelBackend]]:
    async with listening(EditServer(**server)) as found, served_at(found.url, edits=kind) as model:
        yield found, model


async def asked(model: EditModelBackend, within_s: float | None = None) -> tuple[NextEdits, Done]:
    edits, done = [event async for event in model.replies(job(ASKED, within_s=within_s))]
    assert isinstance(edits, NextEdits) and isinstance(done, Done)
    return edits, done


def said(text: str, reason: str = "stop", **more: object) -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": reason, **more}]}


async def test_the_answer_is_one_edit_of_the_lines_around_the_cursor() -> None:
    async with edit_model(answer=said(NEW + ">>>>>>> UPDATED\n")) as (server, model):
        edits, done = await asked(model)
        (edit,) = edits.edits
        assert TEXT[: edit.start] + edit.text + TEXT[edit.end :] == NEW and done.outcome is Outcome.COMPLETE
        (sent,) = server.asked
        assert sent["stop"] == [">>>>>>> UPDATED\n", ">>>>>>> UPDATED"] and sent["temperature"] == 0
        assert "-def total(item):\n+def total(items):\n" in sent["prompt"]


LLAMA = {"content": [{"token": NEW, "logprob": -3.0, "top_logprobs": []}]}
VLLM = {"tokens": [NEW], "token_logprobs": [-3.0], "text_offset": [0]}


UNSURE = [said(NEW, logprobs=logprobs) for logprobs in (LLAMA, VLLM)]


@pytest.mark.parametrize("answer", [said(TEXT), said(""), said(NEW[:20], "length"), *UNSURE])
async def test_no_rewrite_or_an_unsure_one_is_no_edit(answer: dict[str, Any]) -> None:
    async with edit_model(answer=answer) as (_, model):
        assert (await asked(model))[0].edits == ()


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"tokens": [NEW], "token_logprobs": [None]},
        {"content": None, "tokens": None},
        {"content": [{"token": None, "logprob": -3.0}]},
    ],
)
async def test_without_probabilities_a_rewrite_counts(logprobs: object) -> None:
    async with edit_model(answer=said(NEW, logprobs=logprobs)) as (_, model):
        assert len((await asked(model))[0].edits) == 1


async def test_a_server_without_probabilities_is_asked_without() -> None:
    async with edit_model(answer=said(NEW), tells_chances=False) as (server, model):
        for _ in range(2):
            assert len((await asked(model))[0].edits) == 1
        assert ["logprobs" in sent for sent in server.asked] == [True, False, False]


@pytest.mark.parametrize("answer", [[], {"choices": []}, said("x" * 300_000), {"choices": [{"text": 1}]}, "<html>"])
async def test_an_answer_that_makes_no_sense_is_the_servers_fault(answer: Any) -> None:
    async with edit_model(answer=answer) as (_, model):
        with pytest.raises(ServerError, match="an invalid answer"):
            await asked(model)


async def test_at_the_deadline_there_is_no_edit_and_the_server_stops() -> None:
    async with edit_model() as (server, model):
        edits, done = await asked(model, 0.2)
        assert edits.edits == () and done.outcome is Outcome.DEADLINE
        await until(lambda: server.running == 0)


@pytest.mark.parametrize(
    ("names", "why"), [(("qwen",), "nextEdit.kind"), ((), "has no model"), (("zeta", "sweep"), "several models")]
)
async def test_a_server_without_one_known_model_is_refused(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        async with edit_model(names=names):
            pass
    async with edit_model("sweep", names=("mine",), answer=said("    return sum(items)\n")) as (server, model):
        assert len((await asked(model))[0].edits) == 1 and "<|file_sep|>updated/a.py:1:2\n" in server.asked[0]["prompt"]


async def test_an_edit_model_fills_no_holes() -> None:
    async with edit_model() as (_, model):
        with pytest.raises(RequestError, match="fills no holes"):
            await anext(model.replies(job(InfillRequest("r", (PinnedText("a"),)))))

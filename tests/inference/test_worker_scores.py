"""Requests to score given texts are jobs of the worker like any other: one final reply, cancel, deadline, refusal."""

import pytest

from inference.messages import (
    Cancel,
    Done,
    ErrorCode,
    Failed,
    Hole,
    InfillRequest,
    Outcome,
    ScoreRequest,
    Scores,
    Text,
)
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions
from lsp_server.worker.paths import WorkerPaths
from tests.workers import RawClient, is_idle, long_fill

SEGMENTS = (Text("def add(a, b):\n    return"), Hole(single_line=True), Text("\n\n\nprint(add(1, 2))\n"))
TEXTS = ((" a + b",), (" )]] while",))


def scores(request_id: str = "s", **other: object) -> ScoreRequest:
    return ScoreRequest(request_id, **{"segments": SEGMENTS, "candidates": TEXTS, **other})


async def test_scores_then_done(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(scores())
    found, done = await client.answer(), await client.answer()
    assert isinstance(found, Scores)
    good, wrong = found.scores
    assert good > wrong
    assert isinstance(done, Done)
    assert (found.id, done.id, done.outcome) == ("s", "s", Outcome.COMPLETE)
    client.close()


async def test_a_request_that_makes_no_sense_fails_alone(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(scores("bad", candidates=()), scores("good"))
    failed = await client.final("bad")
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.BAD_REQUEST
    assert isinstance(await client.final("good"), Done)
    client.close()


async def test_a_malformed_one_keeps_the_connection(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(scores("bad", candidates="no tuples"))
    failed = await client.final("bad")
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.BAD_REQUEST
    client.send(scores("good"))
    assert isinstance(await client.final("good"), Done)
    client.close()


async def test_an_id_in_use_is_refused_whatever_uses_it(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(long_fill("a"))
    await client.first_draft()
    client.send(scores("a"))
    while not isinstance(refused := await client.answer(), Failed):
        pass
    assert "a request with the id a is running" in refused.message
    client.send(Cancel("a"))
    assert isinstance(await client.final("a"), Done)
    client.close()


async def test_one_that_waits_can_be_cancelled_and_is_answered_once(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(*(long_fill(str(number)) for number in range(4)))  # no more run at once
    await client.first_draft()
    client.send(scores("s"), Cancel("s"), Cancel("s"))
    done = await client.final("s")
    assert isinstance(done, Done)
    assert done.outcome is Outcome.CANCELLED
    client.send(*(Cancel(str(number)) for number in range(4)))
    await client.becomes(is_idle)
    client.close()


async def test_after_the_deadline_there_are_no_scores(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(*(long_fill(str(number)) for number in range(4)))
    await client.first_draft()
    client.send(scores("s", deadline_ms=0))
    done = await client.final("s")
    assert isinstance(done, Done)
    assert done.outcome is Outcome.DEADLINE
    client.send(*(Cancel(str(number)) for number in range(4)))
    await client.becomes(is_idle)
    client.close()


async def test_a_client_is_given_the_scores_or_the_reason(resident: WorkerPaths) -> None:
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        good, wrong = await client.score(scores())
        assert good > wrong
        with pytest.raises(WorkerFailure, match="1 to 16 candidates") as failure:
            await client.score(scores(candidates=()))
        assert failure.value.code is ErrorCode.BAD_REQUEST
        answer = await client.infill(InfillRequest("f", SEGMENTS, max_steps=1))
        assert answer.scores == ()

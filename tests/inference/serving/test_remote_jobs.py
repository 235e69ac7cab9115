"""Requests to a remote server: concurrent, in fair order, each with exactly one reply, whatever happens."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from inference import messages
from inference.messages import Amend, Candidate, Done, ErrorCode, Failed, Hole, InfillRequest, Outcome, Text
from inference.serving.infiller import JobEvent
from inference.serving.logs import log
from inference.serving.remote_jobs import MAX_RUNNING, RemoteJobs
from inference.serving.turns import Job
from tests.remote_infiller import TextInfiller
from tests.text_server import TextServer, text_server
from tests.workers import PATIENCE_S, until

SECRET = "the_users_text"
SEGMENTS = (Text(f"{SECRET} = "), Hole(), Text("\n"))


class Client:
    def __init__(self, jobs: RemoteJobs) -> None:
        self.jobs = jobs
        self.heard: dict[str, list[JobEvent]] = {}
        self._changed = asyncio.Condition()

    def ask(self, name: str, document: str = "a", **other: object) -> Job:
        return self.submit(InfillRequest(name, **{"segments": SEGMENTS, **other}), document)

    def submit(self, request: InfillRequest | messages.NextEditRequest, document: str = "a") -> Job:
        name = request.id
        job = Job(request, lambda job, event: self.heard[job.request.id].append(event), document)
        self.heard[name] = []
        self.jobs.submit(job)
        return job

    async def reply(self, name: str) -> JobEvent:
        await until(lambda: self.heard[name] and isinstance(self.heard[name][-1], Done | Failed))
        return self.heard[name][-1]

    async def code(self, name: str) -> Outcome | ErrorCode:
        reply = await self.reply(name)
        return reply.outcome if isinstance(reply, Done) else reply.code

    @property
    def finals(self) -> dict[str, int]:
        """How many final replies each request has had, and that nothing came after the first."""
        for events in self.heard.values():
            assert not any(isinstance(event, Done | Failed) for event in events[:-1])
        return {name: sum(isinstance(event, Done | Failed) for event in events) for name, events in self.heard.items()}


@asynccontextmanager
async def served(*, punctual: bool = True) -> AsyncIterator[tuple[TextServer, Client]]:
    async with text_server() as server:
        client = Client(RemoteJobs())
        client.jobs.begin(TextInfiller(server.url, punctual=punctual))
        try:
            yield server, client
        finally:
            await client.jobs.close()


async def test_requests_run_side_by_side_but_only_so_many_at_a_time() -> None:
    async with served() as (server, client):
        server.go.clear()
        names = [client.ask(f"{number}").request.id for number in range(3 * MAX_RUNNING)]
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(MAX_RUNNING)
        assert client.jobs.counts() == (MAX_RUNNING, 2 * MAX_RUNNING)
        server.go.set()
        assert {await client.code(name) for name in names} == {Outcome.COMPLETE}
        assert server.most_running == MAX_RUNNING


async def test_what_waits_for_the_server_to_be_found_is_asked_then() -> None:
    async with text_server() as server:
        client = Client(RemoteJobs())
        client.ask("r")
        await asyncio.sleep(0)
        assert client.jobs.counts() == (0, 1)
        client.jobs.begin(TextInfiller(server.url))
        assert await client.code("r") is Outcome.COMPLETE
        await client.jobs.close()


async def test_cancelling_aborts_what_was_asked_of_the_server() -> None:
    async with served() as (server, client):
        server.go.clear()
        job = client.ask("r")
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(1)
            client.jobs.cancel(job)
            assert await client.code("r") is Outcome.CANCELLED
            await server.asked[0].aborted.wait()


async def test_requests_that_wait_are_cancelled_and_expire() -> None:
    async with served() as (server, client):
        server.go.clear()
        for number in range(MAX_RUNNING):
            client.ask(f"{number}")
        client.jobs.cancel(client.ask("unwanted"))
        client.jobs.expire(client.ask("late"))
        assert await client.code("unwanted") is Outcome.CANCELLED
        assert await client.code("late") is Outcome.DEADLINE
        assert client.jobs.counts() == (MAX_RUNNING, 0)


async def test_the_document_with_fewest_requests_is_next() -> None:
    async with served() as (server, client):
        server.go.clear()
        jobs = [client.ask(f"{number}", "greedy") for number in range(MAX_RUNNING)]
        client.ask("modest", "modest")
        jobs += [client.ask(f"more {number}", "greedy") for number in range(MAX_RUNNING)]
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(MAX_RUNNING)
            client.jobs.cancel(jobs[0])
            await server.until_asked(MAX_RUNNING + 1)
        assert server.asked[MAX_RUNNING].body["id"] == "modest"


async def test_background_work_gives_way() -> None:
    async with served() as (server, client):
        server.go.clear()
        client.ask("wanted")
        client.ask("behind", "b", background=True)
        client.ask("last", "c", background=True)
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(1)
        assert client.jobs.counts() == (1, 2), "it waits, although there is room"
        server.go.set()
        assert await client.code("wanted") is Outcome.COMPLETE
        assert {await client.code(name) for name in ("behind", "last")} == {Outcome.COMPLETE}
        assert server.most_running == 1, "one after another"
        server.go.clear()
        client.ask("again", "b", background=True)
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(4)
        client.ask("other", "d")
        assert await client.code("again") is Outcome.CANCELLED
        async with asyncio.timeout(PATIENCE_S):
            await server.asked[3].aborted.wait()
        server.go.set()
        assert await client.code("other") is Outcome.COMPLETE
        assert set(client.finals.values()) == {1}


async def test_deadline_is_enforced_from_outside() -> None:
    for punctual in (True, False):
        async with served(punctual=punctual) as (server, client):
            server.go.clear()
            client.ask("r", deadline_ms=50)
            async with asyncio.timeout(PATIENCE_S):
                assert await client.code("r") is Outcome.DEADLINE
                await server.asked[0].aborted.wait()


async def test_typing_reaches_waiting_and_running_requests() -> None:
    async with served() as (server, client):
        server.go.clear()
        jobs = [client.ask(f"{number}", f"{number}") for number in range(MAX_RUNNING + 1)]
        client.jobs.amend(jobs[-1], Amend("late", 0, "typed_"))
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(MAX_RUNNING)
        client.jobs.amend(jobs[0], Amend("0", 0, "typed_"))
        server.go.set()
        for job in (jobs[0], jobs[-1]):
            await client.reply(job.request.id)
            (candidate,) = [event for event in client.heard[job.request.id] if isinstance(event, Candidate)]
            assert candidate.texts == ("typed_filled",)


async def test_a_failure_ends_only_its_own_request(caplog: pytest.LogCaptureFixture) -> None:
    log.propagate = True
    async with served() as (server, client):
        server.go.clear()
        client.ask("good")
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(1)
        client.ask("refused", instruction="refuse")
        client.ask("bug", instruction="bug")
        server.status = 503
        client.ask("unavailable")
        with caplog.at_level(logging.DEBUG):
            assert await client.code("refused") is ErrorCode.BAD_REQUEST
            assert await client.code("bug") is ErrorCode.INTERNAL
            assert await client.code("unavailable") is ErrorCode.SERVER
        server.go.set()
        assert await client.code("good") is Outcome.COMPLETE
        assert "KeyError" in caplog.text and SECRET not in caplog.text


async def test_closing_answers_everybody_and_aborts_what_runs() -> None:
    async with served() as (server, client):
        server.go.clear()
        names = [client.ask(f"{number}").request.id for number in range(2 * MAX_RUNNING)]
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(MAX_RUNNING)
            await client.jobs.close()
            assert {await client.code(name) for name in names} == {ErrorCode.STOPPED}
            for asked in server.asked:
                await asked.aborted.wait()
        assert set(client.finals.values()) == {1}


async def test_everybody_gets_exactly_one_reply_whatever_happens() -> None:
    chance = random.Random(2)
    async with served() as (server, client):
        jobs: list[Job] = []
        for number in range(120):
            server.status = chance.choice([200, 200, 503])
            (server.go.set if chance.random() < 0.5 else server.go.clear)()
            limit_ms = chance.choice([None, 1, 20])
            instruction = chance.choice(["", "", "", "refuse", "bug"])
            jobs.append(client.ask(f"{number}", chance.choice("abc"), deadline_ms=limit_ms, instruction=instruction))
            job = chance.choice(jobs)
            chance.choice(
                [
                    lambda job=job: client.jobs.cancel(job),
                    lambda job=job: client.jobs.expire(job),
                    lambda job=job: client.jobs.amend(job, Amend("", chance.choice([0, 0, 3]), "t")),
                ]
            )()
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice([0, 0.001, 0.01]))
        server.go.set()
        began = time.monotonic()
        for job in jobs:
            await client.reply(job.request.id)
        assert time.monotonic() - began < PATIENCE_S
        assert set(client.finals.values()) == {1} and client.jobs.counts() == (0, 0)


async def test_what_cannot_be_asked_of_a_server_is_refused_alone() -> None:
    async with served() as (_, client):
        client.submit(messages.NextEditRequest("s", "x = 1\n", ()))
        reply = await client.reply("s")
        assert (reply.code, "no longer fit" in reply.message) == (ErrorCode.BAD_REQUEST, True)
        client.ask("f")
        assert await client.code("f") is Outcome.COMPLETE
        assert client.finals == {"s": 1, "f": 1}

"""The worker's queue, before an engine in its thread and before a server: fair order, and exactly one reply each."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import torch

from inference.deadline import Deadline
from inference.engine.errors import RequestError
from inference.messages import (
    Done,
    ErrorCode,
    Failed,
    Hole,
    InfillRequest,
    NextEditRequest,
    Outcome,
    PinnedText,
    Request,
)
from inference.serving.engine_thread import DeviceLostError, EngineThread, EngineWork, next_work
from inference.serving.scheduler import MAX_OF_CLIENT, MAX_RUNNING, Job, JobEvent, Scheduler
from tests.inference.remote.asking import partner_at
from tests.partner_server import PartnerServer, partner_server
from tests.workers import PATIENCE_S, until

SECRET = "text of a document"
SEGMENTS = (PinnedText(f"{SECRET} = "), Hole(), PinnedText("\n"))


class Asker:
    """A client: asks a queue, and keeps what it hears of each request."""

    def __init__(self, queue: Scheduler) -> None:
        self.queue = queue
        self.jobs = list[Job]()
        self.heard: dict[str, list[JobEvent]] = {}

    def ask(self, name: str, document: str = "a", **other: object) -> Job:
        """Asks for a fill; one whose name begins with "q" appears while somebody types."""
        fields = {"segments": SEGMENTS, "path": document, "quick": name.startswith("q"), **other}
        return self.submit(InfillRequest(name, **fields))

    def submit(self, request: InfillRequest | NextEditRequest) -> Job:
        job = Job(request, lambda job, event: self.heard[job.request.id].append(event), self)
        self.heard[request.id] = []
        self.jobs.append(job)
        self.queue.submit(job)
        return job

    def stop(self) -> None:
        """Cancels all its requests."""
        for job in self.jobs:
            self.queue.cancel(job)

    async def end(self, name: str) -> Outcome | ErrorCode:
        """How a request ended. It had no other final reply, and no reply after that."""
        await until(lambda: self.heard[name] and isinstance(self.heard[name][-1], Done | Failed))
        *before, last = self.heard[name]
        assert not any(isinstance(event, Done | Failed) for event in before)
        return last.outcome if isinstance(last, Done) else last.code


# --- An engine in its thread ---


def order_of(*asked: tuple[str, str], count: int) -> str:
    """Whose the next `count` steps are, which take a second each, if so many ask for ever: (client, kind)."""
    works = []
    for name, kind in asked:
        request: Request = InfillRequest(name, (), quick=kind == "automatic")
        if kind == "endpoint":
            request = InfillRequest(name, (), quick=True, endpoint_client=name)
        elif kind == "next edit":
            request = NextEditRequest(name, "", ())
        works.append(EngineWork(Job(request, lambda *_: None)))
    order = ""
    for now in range(1, count + 1):
        chosen = next_work(works)
        chosen.charge(1.0, now)
        order += chosen.job.request.id
    return order


@pytest.mark.parametrize("kind", ["explicit", "automatic", "next edit", "endpoint"])
def test_equal_requests_take_turns(kind: str) -> None:
    assert order_of(*[(name, kind) for name in "abc"], count=30) == "cba" * 10


def test_editors_go_before_clients_of_the_endpoint() -> None:
    for kind in ("explicit", "automatic", "next edit"):
        assert order_of(*[("x", "endpoint")] * 4, ("a", kind), count=40) == "a" * 40
    assert order_of(("x", "endpoint"), count=1) == "x"


def test_explicit_goes_first_but_no_automatic_one_waits_long() -> None:
    assert order_of(("n", "next edit"), ("q", "automatic"), ("e", "explicit"), count=15) == "eeeee" + "qe" * 5


ERRORS: dict[str, tuple[Exception, ErrorCode]] = {
    "bad request": (RequestError("no hole"), ErrorCode.BAD_REQUEST),
    "no memory": (MemoryError(), ErrorCode.OUT_OF_MEMORY),
    "no memory on cuda": (torch.OutOfMemoryError("CUDA out of memory"), ErrorCode.OUT_OF_MEMORY),
    "no memory on cpu": (RuntimeError("DefaultCPUAllocator: can't allocate memory"), ErrorCode.OUT_OF_MEMORY),
    "bug": (KeyError(SECRET), ErrorCode.INTERNAL),
    "lost": (torch.AcceleratorError("CUDA error: device-side assert triggered"), ErrorCode.INTERNAL),
}


class ScriptedEngine:
    """Fails each request in its second step as its id says; one that is "endless" goes on until it is closed."""

    is_prefill_pending = False

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.has_prepared = threading.Event()

    def infill(self, request: InfillRequest, *, deadline: Deadline | None = None) -> Iterator[Done | None]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield None
            while request.id.startswith("endless"):
                yield None
            if request.id in ERRORS:
                raise ERRORS[request.id][0]
            yield Done(request.id)
        finally:
            self.running -= 1

    next_edits = infill

    def run_idle_task(self) -> bool:
        self.has_prepared.set()
        if not self.is_prefill_pending:
            raise MemoryError
        return True


@asynccontextmanager
async def engine_thread() -> AsyncIterator[tuple[ScriptedEngine, Asker]]:
    opened, engine, asker = EngineThread(), ScriptedEngine(), Asker(Scheduler())
    loop = asyncio.get_running_loop()

    def run() -> None:
        try:
            opened.run(engine)
        except DeviceLostError as error:
            loop.call_soon_threadsafe(asker.queue.fail, ErrorCode.INTERNAL, str(error))

    threading.Thread(target=run, daemon=True).start()
    asker.queue.start(opened)
    yield engine, asker
    await asker.queue.close()
    await until(lambda: asker.queue.job_counts() == (0, 0))


async def test_a_failing_step_fails_its_own_request(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("inference.worker").propagate = True
    async with engine_thread() as (engine, asker):
        for name in (*ERRORS, "fine"):
            if name != "lost":
                asker.ask(name, name)
        for name, (_, code) in ERRORS.items():
            if name != "lost":
                assert await asker.end(name) is code
        assert await asker.end("fine") is Outcome.COMPLETE
        assert engine.running == 0 and SECRET not in caplog.text + str(asker.heard["bug"])
        await until(engine.has_prepared.is_set)
        asker.ask("after a failed preparation")
        assert await asker.end("after a failed preparation") is Outcome.COMPLETE
        assert "nothing is prepared for later requests: MemoryError" in caplog.text


async def test_lost_device_answers_all_requests() -> None:
    async with engine_thread() as (_, asker):
        for name in ("lost", "endless", *(f"waits {number}" for number in range(MAX_RUNNING))):
            asker.ask(name, name)
        assert await asker.end("lost") is await asker.end("endless") is ErrorCode.INTERNAL
        assert {await asker.end(name) for name in asker.heard} <= {ErrorCode.INTERNAL, Outcome.COMPLETE}


async def test_one_client_takes_a_part_of_the_places_only() -> None:
    async with engine_thread() as (engine, asker):
        jobs = [asker.ask(f"endless {number}", str(number)) for number in range(MAX_OF_CLIENT + 2)]
        other = Asker(asker.queue)
        other.ask("fine")
        assert await other.end("fine") is Outcome.COMPLETE
        for client in (other, Asker(asker.queue)):
            for number in range(MAX_OF_CLIENT):
                client.ask(f"endless {number}")
        await until(lambda: engine.running == MAX_RUNNING)
        running, waiting = asker.queue.job_counts()
        asker.ask("q")
        assert asker.queue.job_counts() == (running + 1, waiting), "what appears needs no place of theirs"
        for job in (jobs[0], jobs[0], jobs[-1]):
            asker.queue.cancel(job)
        assert await asker.end(jobs[0].request.id) is await asker.end(jobs[-1].request.id) is Outcome.CANCELLED
        asker.ask("late", deadline_ms=1)
        assert await asker.end("late") is Outcome.DEADLINE


async def test_reading_ahead_shares_the_time_of_next_edits_alone() -> None:
    async with engine_thread() as (engine, asker):
        asker.submit(NextEditRequest("endless", "", ()))
        await until(lambda: engine.running)
        engine.is_prefill_pending = True
        await until(engine.has_prepared.is_set)
        asker.ask("endless too")
        await until(lambda: engine.running == 2)
        engine.has_prepared.clear()
        asker.ask("fine")
        assert await asker.end("fine") is Outcome.COMPLETE
        assert not engine.has_prepared.is_set()
        engine.is_prefill_pending = False


# --- A server ---


@asynccontextmanager
async def served() -> AsyncIterator[tuple[PartnerServer, Asker]]:
    """A server that holds its answers back, and a queue before it."""
    async with partner_server(kinds=("fim",)) as server:
        asker = Asker(Scheduler())
        asker.ask("before there is a server")
        assert asker.queue.job_counts() == (0, 1)
        async with partner_at(server.url) as partner:
            asker.queue.start(partner)
            assert await asker.end("before there is a server") is Outcome.COMPLETE
            server.asked.clear()
            server.hold.clear()
            yield server, asker
            async with asyncio.timeout(PATIENCE_S):
                await asker.queue.close()


@pytest.mark.parametrize("who", ["a document", "a client"])
async def test_who_has_fewer_requests_is_next(who: str) -> None:
    async with served() as (server, asker):
        jobs = [asker.ask(f"{number}", "greedy") for number in range(MAX_OF_CLIENT)]
        modest, other = asker, Asker(asker.queue)
        if who == "a client":
            modest = Asker(asker.queue)
            for number in range(MAX_OF_CLIENT):
                other.ask(f"{number}")
        running, _ = asker.queue.job_counts()
        modest.ask("modest", "modest", segments=(PinnedText("modest = "), Hole(), PinnedText("\n")))
        asker.ask("more", "greedy")
        asker.queue.cancel(jobs[0])
        await until(lambda: server.fills and server.fills[-1].prefix == "modest = ")
        assert asker.queue.job_counts()[1] == 1 and running <= MAX_RUNNING


async def test_what_a_server_does_to_one_request_ends_no_other() -> None:
    async with served() as (server, asker):
        asker.ask("good")
        asker.ask("late", deadline_ms=3_000)
        await until(lambda: len(server.fills) == 2)
        asker.ask("without a hole", segments=())
        assert await asker.end("without a hole") is ErrorCode.BAD_REQUEST
        assert await asker.end("late") is Outcome.DEADLINE
        server.status = 500
        asker.ask("unlucky")
        await until(lambda: len(server.fills) == 3)
        server.hold.set()
        assert await asker.end("good") is await asker.end("unlucky") is ErrorCode.SERVER
        server.status = 200
        asker.ask("again")
        assert await asker.end("again") is Outcome.COMPLETE


async def test_closing_answers_everybody_and_aborts_what_runs() -> None:
    async with served() as (server, asker):
        names = [asker.ask(f"{number}").request.id for number in range(2 * MAX_OF_CLIENT)]
        await until(lambda: len(server.fills) == MAX_OF_CLIENT)
        await asker.queue.close()
        assert {await asker.end(name) for name in names} == {ErrorCode.STOPPED}
        await until(lambda: server.aborted == MAX_OF_CLIENT)

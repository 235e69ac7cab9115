"""The worker's queue, before an engine in its thread and before a server: fair order, and exactly one reply each."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest
import torch

from inference.deadline import Deadline
from inference.engine import RequestError
from inference.messages import (
    Amend,
    Candidate,
    Done,
    ErrorCode,
    Failed,
    Hole,
    InfillRequest,
    NextEditRequest,
    NextEdits,
    Outcome,
    Text,
)
from inference.serving.engine_thread import DeviceLostError, EngineThread, EngineWork, next_work
from inference.serving.jobs import MAX_RUNNING, Job, JobEvent, Queue
from tests.inference.remote.asking import partner_at
from tests.partner_server import PartnerServer, partner_server
from tests.workers import PATIENCE_S, until

SECRET = "text of a document"
SEGMENTS = (Text(f"{SECRET} = "), Hole(), Text("\n"))


class Asker:
    """A client: asks a queue, and keeps what it hears of each request."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.heard: dict[str, list[JobEvent]] = {}

    def ask(self, name: str, document: str = "a", **other: object) -> Job:
        """Asks for a fill; one whose name begins with "q" appears while somebody types."""
        fields = {"segments": SEGMENTS, "path": document, "quick": name.startswith("q"), **other}
        request = InfillRequest(name, **fields)
        job = Job(request, lambda job, event: self.heard[job.request.id].append(event), self)
        self.heard[name] = []
        self.queue.submit(job)
        return job

    async def end(self, name: str) -> Outcome | ErrorCode:
        """How a request ended. It had no other final reply, and no reply after that."""
        await until(lambda: self.heard[name] and isinstance(self.heard[name][-1], Done | Failed))
        *before, last = self.heard[name]
        assert not any(isinstance(event, Done | Failed) for event in before)
        return last.outcome if isinstance(last, Done) else last.code


# --- An engine in its thread ---


def work(name: str) -> EngineWork:
    request = NextEditRequest(name, "", ()) if name == "n" else InfillRequest(name, (), quick=name == "q")
    return EngineWork(Job(request, lambda *_: None))


def order_of(works: Sequence[EngineWork], count: int, *, slow: str = "") -> str:
    """The ids of the next `count` steps, which take a second each; those of `slow` three."""
    order = ""
    for _ in range(count):
        chosen = next_work(works)
        chosen.charge(3.0 if chosen.job.request.id == slow else 1.0)
        order += chosen.job.request.id
    return order


def test_requests_share_time_an_automatic_one_gets_8_turns() -> None:
    assert order_of([work("1"), work("2"), work("3")], 3) == "321", "the newest first"
    order = order_of([work("s"), work("f")], 40, slow="s")
    assert order.count("f") == 3 * order.count("s"), "time, not steps"
    order = order_of([work("1"), work("2"), work("q")], 40)
    assert [order.count(name) for name in "q12"] == [32, 4, 4]


def test_next_edits_wait_for_what_appears() -> None:
    works = [work("n"), work("1"), work("q")]
    assert set(order_of(works, 20)) == {"1", "q"}
    assert set(order_of(works[:2], 20)) == {"1", "n"}


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

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.began: list[str] = []
        self.has_prepared = threading.Event()

    def infill(self, request: InfillRequest, *, deadline: Deadline | None = None) -> Iterator[Done | None]:
        self.began.append(request.id)
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

    def next_edits(self, request: NextEditRequest, *, deadline: Deadline | None = None) -> Iterator[NextEdits | Done]:
        yield Done(request.id)

    def prepare(self) -> bool:
        self.has_prepared.set()
        raise MemoryError


@asynccontextmanager
async def engine_thread() -> AsyncIterator[tuple[ScriptedEngine, Asker]]:
    opened, engine, asker = EngineThread(), ScriptedEngine(), Asker(Queue())
    loop = asyncio.get_running_loop()

    def run() -> None:
        try:
            opened.run(engine)
        except DeviceLostError as error:
            loop.call_soon_threadsafe(asker.queue.fail, ErrorCode.INTERNAL, str(error))

    threading.Thread(target=run, daemon=True).start()
    asker.queue.begin(opened)
    yield engine, asker
    await asker.queue.close()
    assert asker.queue.counts() == (0, 0)


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


async def test_only_so_many_run_and_what_appears_needs_no_place() -> None:
    async with engine_thread() as (engine, asker):
        jobs = [asker.ask(f"endless {number}", str(number)) for number in range(MAX_RUNNING + 2)]
        asker.ask("q")
        assert await asker.end("q") is Outcome.COMPLETE
        assert asker.queue.counts() == (MAX_RUNNING, 2) and engine.most == MAX_RUNNING + 1
        for job in (jobs[0], jobs[0], jobs[-1]):
            asker.queue.cancel(job)
        assert await asker.end(jobs[0].request.id) is await asker.end(jobs[-1].request.id) is Outcome.CANCELLED
        asker.ask("late", deadline_ms=1)
        assert await asker.end("late") is Outcome.DEADLINE


async def test_background_gives_way_between_steps() -> None:
    async with engine_thread() as (engine, asker):
        asker.ask("endless b1", background=True)
        asker.ask("endless b2", background=True)
        await until(lambda: engine.began)
        assert asker.queue.counts() == (1, 1), "one at a time"
        asker.ask("wanted")
        assert await asker.end("wanted") is Outcome.COMPLETE
        assert await asker.end(engine.began[0]) is Outcome.CANCELLED
        await until(lambda: len(engine.began) == 3)


# --- A server ---


@asynccontextmanager
async def served() -> AsyncIterator[tuple[PartnerServer, Asker]]:
    """A server that holds its answers back, and a queue before it."""
    async with partner_server(kinds=("fim",)) as server:
        asker = Asker(Queue())
        asker.ask("before there is a server")
        assert asker.queue.counts() == (0, 1)
        async with partner_at(server.url) as partner:
            asker.queue.begin(partner)
            assert await asker.end("before there is a server") is Outcome.COMPLETE
            server.asked.clear()
            server.hold.clear()
            yield server, asker
            async with asyncio.timeout(PATIENCE_S):
                await asker.queue.close()


@pytest.mark.parametrize("who", ["a document", "a client"])
async def test_who_has_fewer_requests_is_next(who: str) -> None:
    async with served() as (server, asker):
        documents = [str(number) if who == "a client" else "greedy" for number in range(MAX_RUNNING + 1)]
        jobs = [asker.ask(f"{number}", document) for number, document in enumerate(documents[1:])]
        modest = Asker(asker.queue) if who == "a client" else asker
        modest.ask("modest", "modest", segments=(Text("modest = "), Hole(), Text("\n")))
        asker.ask("more", documents[0])
        await server.until(lambda it: len(it.fills) == MAX_RUNNING)
        asker.queue.cancel(jobs[0])
        await server.until(lambda it: len(it.fills) == MAX_RUNNING + 1 and it.aborted == 1)
        assert server.fills[-1].prefix == "modest = "
        assert asker.queue.counts() == (MAX_RUNNING, 1)


async def test_typing_reaches_waiting_and_running_requests() -> None:
    async with served() as (server, asker):
        jobs = [asker.ask(f"{number}", f"{number}") for number in range(MAX_RUNNING + 1)]
        asker.queue.amend(jobs[-1], Amend("", 0, "typed_"))
        await server.until(lambda it: len(it.fills) == MAX_RUNNING)
        asker.queue.amend(jobs[0], Amend("", 0, "typed_"))
        asker.queue.amend(jobs[1], Amend("", 7, "into no hole"))
        server.hold.set()
        for name in ("0", str(MAX_RUNNING)):
            await asker.end(name)
            texts = [event.texts[0] for event in asker.heard[name] if isinstance(event, Candidate)]
            assert texts and all(text.startswith("typed_") for text in texts)
        assert await asker.end("1") is ErrorCode.BAD_REQUEST


async def test_what_a_server_does_to_one_request_ends_no_other() -> None:
    async with served() as (server, asker):
        asker.ask("good")
        asker.ask("late", deadline_ms=50)
        await server.until(lambda it: len(it.fills) == 2)
        asker.ask("without a hole", segments=())
        assert await asker.end("without a hole") is ErrorCode.BAD_REQUEST
        assert await asker.end("late") is Outcome.DEADLINE
        server.status = 500
        asker.ask("unlucky")
        await server.until(lambda it: len(it.fills) == 3)
        server.hold.set()
        assert await asker.end("good") is await asker.end("unlucky") is ErrorCode.SERVER
        server.status = 200
        asker.ask("again")
        assert await asker.end("again") is Outcome.COMPLETE


async def test_closing_answers_everybody_and_aborts_what_runs() -> None:
    async with served() as (server, asker):
        names = [asker.ask(f"{number}").request.id for number in range(2 * MAX_RUNNING)]
        await server.until(lambda it: len(it.fills) == MAX_RUNNING)
        await asker.queue.close()
        assert {await asker.end(name) for name in names} == {ErrorCode.STOPPED}
        await server.until(lambda it: it.aborted == MAX_RUNNING)

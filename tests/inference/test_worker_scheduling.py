"""The order of steps, and the effect of a failing step on the other requests."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from inference.engine import RequestError
from inference.messages import Done, ErrorCode, Failed, InfillRequest, NextEditRequest, Outcome
from inference.serving.infiller import JobEvent, Steps
from inference.serving.scheduler import MAX_RUNNING, DeviceLostError, Scheduler
from inference.serving.turns import Job, Turns
from tests.workers import PATIENCE_S

SECRET = "text of a document"


def job(name: str, document: str = "a", emit: Callable[[Job, JobEvent], None] = lambda *_: None) -> Job:
    """A job; one whose name begins with "q" appears while somebody types."""
    return Job(InfillRequest(name, (), quick=name.startswith("q")), emit, document)


def joined(turns: Turns, *jobs: Job) -> list[Job]:
    for number, newcomer in enumerate(jobs):
        turns.join(newcomer, jobs[:number])
    return list(jobs)


def order_of_turns(turns: Turns, jobs: list[Job], count: int, cost: Callable[[Job], float] = lambda _: 1.0) -> str:
    """The ids of the next `count` jobs, each of which takes its `cost` in seconds."""
    order = ""
    for _ in range(count):
        chosen = turns.next(jobs)
        turns.charge(chosen, cost(chosen))
        order += chosen.request.id
    return order


def test_documents_take_turns_however_many_requests_each_has() -> None:
    turns = Turns()
    order = order_of_turns(turns, joined(turns, job("x", "a"), job("y", "a"), job("z", "b")), 12)
    assert (order.count("x"), order.count("y"), order.count("z")) == (3, 3, 6)


def test_time_is_shared_not_steps() -> None:
    turns = Turns()
    jobs = joined(turns, job("s", "a"), job("f", "b"))
    order = order_of_turns(turns, jobs, 40, lambda chosen: 3.0 if chosen.request.id == "s" else 1.0)
    assert order.count("f") == 3 * order.count("s")


def test_the_newest_of_a_document_goes_first_on_a_tie() -> None:
    turns = Turns()
    assert order_of_turns(turns, joined(turns, job("1"), job("2"), job("3")), 3) == "321"


def test_newcomer_gets_a_fair_turn() -> None:
    turns = Turns()
    jobs = joined(turns, job("o", "a"))
    order_of_turns(turns, jobs, 100)
    newcomer = job("n", "b")
    turns.join(newcomer, jobs)
    assert order_of_turns(turns, [*jobs, newcomer], 8).count("n") == 4


def test_what_appears_hardly_waits_for_what_was_asked_for() -> None:
    turns = Turns()
    asked = joined(turns, job("1", "a"), job("2", "b"), job("3", "c"))
    order_of_turns(turns, asked, 30)
    turns.join(quick := job("q", "q"), asked)
    order = order_of_turns(turns, [*asked, quick], 44)
    assert order.count("q") == 32, "eight steps for each of another"
    assert [order.count(name) for name in "123"] == [4, 4, 4], "which go on all the same"


def test_next_edits_wait_for_what_appears() -> None:
    turns = Turns()
    looking = Job(NextEditRequest("n", "", ()), lambda *_: None, "a")
    jobs = joined(turns, looking, job("1", "b"), job("q", "a"))
    assert set(order_of_turns(turns, jobs, 20)) == {"1", "q"}
    assert set(order_of_turns(turns, jobs[:2], 20)) == {"1", "n"}


ERRORS: dict[str, Exception] = {
    "bad request": RequestError("no hole", ErrorCode.BAD_REQUEST),
    "no memory": MemoryError(),
    "no memory on cuda": torch.OutOfMemoryError("CUDA out of memory"),
    "no memory on cpu": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes"),
    "bug": KeyError(SECRET),
    "lost": torch.AcceleratorError("CUDA error: device-side assert triggered"),
}


class ScriptedInfiller:
    """Fails each request in its second step as the request's id says."""

    model, device, dtype, context_tokens, note = "scripted", "none", "none", 0, ""

    def __init__(self) -> None:
        self.running = self.most = 0

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Steps:
        return self._steps(request.id)

    def _steps(self, request_id: str) -> Iterator[Done | None]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield None
            if request_id in ERRORS:
                raise ERRORS[request_id]
            yield Done(request_id)
        finally:
            self.running -= 1


class SchedulerRun:
    def __init__(self, *ids: str) -> None:
        self.scheduler, self.infiller = Scheduler(), ScriptedInfiller()
        self.answers: dict[str, list[JobEvent]] = {}
        self._changed = threading.Condition()
        self.jobs = [job(name, name, self._emit) for name in ids]
        for each in self.jobs:
            self.scheduler.submit(each)

    def run(self) -> dict[str, list[JobEvent]]:
        threading.Thread(target=self.scheduler.run, args=(self.infiller,), daemon=True).start()
        self.until(lambda: len(self.answers) == len(self.jobs))
        return self.answers

    def until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S)

    def submit(self, name: str, *, background: bool = False) -> Job:
        found = Job(InfillRequest(name, (), background=background), self._emit, name)
        self.jobs.append(found)
        self.scheduler.submit(found)
        return found

    def _emit(self, job: Job, event: JobEvent) -> None:
        with self._changed:
            self.answers.setdefault(job.request.id, []).append(event)
            self._changed.notify_all()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("bad request", ErrorCode.BAD_REQUEST),
        ("no memory", ErrorCode.OUT_OF_MEMORY),
        ("no memory on cuda", ErrorCode.OUT_OF_MEMORY),
        ("no memory on cpu", ErrorCode.OUT_OF_MEMORY),
        ("bug", ErrorCode.INTERNAL),
    ],
)
def test_a_failing_step_fails_its_own_request(kind: str, code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("infill-ls.worker").propagate = True
    run = SchedulerRun(kind, "fine")
    answers = run.run()
    (failed,) = answers[kind]
    assert failed.code is code
    assert answers["fine"] == [Done("fine")]
    assert (run.scheduler.counts(), run.infiller.running) == ((0, 0), 0)
    assert SECRET not in failed.message + caplog.text


def test_lost_device_answers_all_requests() -> None:
    run = SchedulerRun("lost", "fine", "too")
    with pytest.raises(DeviceLostError):
        run.scheduler.run(run.infiller)
    run.scheduler.fail(ErrorCode.INTERNAL, "lost", waiting_only=False)
    assert [len(events) for events in run.answers.values()] == [1, 1, 1]


def test_failed_preparation_fails_no_request(caplog: pytest.LogCaptureFixture) -> None:
    tried = threading.Event()

    class Unprepared(ScriptedInfiller):
        def prepare(self) -> bool:
            tried.set()
            raise MemoryError

    run = SchedulerRun("1")
    run.infiller = Unprepared()
    run.run()
    assert tried.wait(PATIENCE_S)
    run.submit("2")
    run.until(lambda: "2" in run.answers)
    assert "nothing is prepared for later requests: MemoryError" in caplog.text


def test_only_so_many_requests_hold_memory_at_once() -> None:
    run = SchedulerRun(*(str(number) for number in range(3 * MAX_RUNNING)))
    run.run()
    assert run.infiller.most == MAX_RUNNING


class Endless(ScriptedInfiller):
    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Steps:
        return self._steps(request.id) if request.quick else iter(lambda: None, 0)


def test_what_appears_needs_no_place_of_what_was_asked_for() -> None:
    run = SchedulerRun(*(str(number) for number in range(MAX_RUNNING + 1)), "q")
    threading.Thread(target=run.scheduler.run, args=(Endless(),), daemon=True).start()
    run.until(lambda: "q" in run.answers)
    assert run.answers == {"q": [Done("q")]}


def test_waiting_job_ends_once_however_it_ends() -> None:
    run = SchedulerRun("cancelled", "expired", "failed")
    cancelled, expired, _ = run.jobs
    for _ in range(2):
        run.scheduler.cancel(cancelled)
        run.scheduler.expire(expired)
    run.scheduler.fail(ErrorCode.STOPPED, "ending", waiting_only=True)
    outcomes = [event.outcome for events in run.answers.values() for event in events if isinstance(event, Done)]
    assert outcomes == [Outcome.CANCELLED, Outcome.DEADLINE]
    assert run.answers["failed"] == [Failed("failed", ErrorCode.STOPPED, "ending")]
    assert run.scheduler.counts() == (0, 0)


class EndlessBackground(ScriptedInfiller):
    def __init__(self) -> None:
        super().__init__()
        self.began: list[str] = []
        self.is_stepping = threading.Event()

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Steps:
        self.began.append(request.id)
        return self._without_end() if request.background else self._steps(request.id)

    def _without_end(self) -> Iterator[Done | None]:
        while True:
            self.is_stepping.set()
            yield None


def test_background_gives_way_between_steps() -> None:
    run = SchedulerRun()
    run.infiller = infiller = EndlessBackground()
    for name in ("b1", "b2", "w1", "w2"):
        run.submit(name, background=name.startswith("b"))
    threading.Thread(target=run.scheduler.run, args=(infiller,), daemon=True).start()
    assert infiller.is_stepping.wait(PATIENCE_S)
    assert set(infiller.began[:2]) == {"w1", "w2"} and len(infiller.began) == 3
    first, second = (infiller.began[2], "b1" if infiller.began[2] == "b2" else "b2")
    assert second not in run.answers, "one at a time"
    infiller.is_stepping.clear()
    run.submit("w3")
    assert infiller.is_stepping.wait(PATIENCE_S)
    run.until(lambda: "w3" in run.answers and first in run.answers)
    (done,) = run.answers[first]
    assert isinstance(done, Done) and done.outcome is Outcome.CANCELLED
    run.scheduler.cancel(next(each for each in run.jobs if each.request.id == second))
    run.until(lambda: len(run.answers) == 5)
    assert all(len(events) == 1 for events in run.answers.values())

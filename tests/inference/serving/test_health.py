"""A worker's report on its server, by the results of the requests to it."""

from inference.messages import Done, ErrorCode, Failed, FilledHoles, InfillRequest, Outcome, Stats, Status, WorkerState
from inference.serving.scheduler import JobEvent
from inference.serving.worker_service import MAX_UNANSWERED, BackendHealth, WorkerService
from tests.inference.remote.asking import arguments

ASKED = InfillRequest("r", ())
SILENT = Done("r", Outcome.DEADLINE, Stats(ms=2_000.0, canvases=1))
"""A request that was sent, and of which nothing was read until its deadline."""


def heard(*events: JobEvent) -> tuple[list[bool], Status]:
    """Which of the replies were news, and the status after them."""
    health = BackendHealth("http://gpu:8000")
    health.record_success()
    news = [health.record_reply(ASKED, event) for event in events]
    return news, health.add_to_status(Status(WorkerState.READY))


def test_silent_server_is_a_problem_until_it_answers() -> None:
    news, status = heard(*[SILENT] * (MAX_UNANSWERED + 1))
    assert news == [False] * (MAX_UNANSWERED - 1) + [True, False]
    assert "http://gpu:8000 has not answered the last 3 requests in time" in status.server_problem
    assert status.server_up_s == 0
    news, status = heard(*[SILENT] * MAX_UNANSWERED, Done("r"))
    assert news[-1] and status.server_problem == "" and status.server_up_s > 0


def test_slow_or_unasked_server_is_no_problem() -> None:
    slow = Done("r", Outcome.DEADLINE, Stats(ms=2_000.0, encode_ms=1_900.0, steps=1, canvases=1))
    waited = Done("r", Outcome.DEADLINE, Stats(ms=2_000.0))
    cancelled = Done("r", Outcome.CANCELLED, Stats(ms=20.0, canvases=1))
    _, status = heard(*[SILENT, slow, waited, cancelled] * MAX_UNANSWERED)
    assert status.server_problem == ""
    _, status = heard(SILENT, SILENT, FilledHoles("r", ("x",)), SILENT, waited, waited)
    assert status.server_problem == ""


def test_another_problem_is_news_and_the_same_is_not() -> None:
    news, status = heard(*(Failed("r", ErrorCode.SERVER, words) for words in ("503", "503", "401")))
    assert (news, status.server_problem) == ([True, False, True], "401")


async def test_a_request_after_a_failure_is_told_of_it() -> None:
    service = WorkerService(arguments("embedded"))
    service.on_failure(ErrorCode.MODEL, "no such model")
    assert service.submit(None, ASKED) == Failed("r", ErrorCode.MODEL, "no such model")  # type: ignore[arg-type]

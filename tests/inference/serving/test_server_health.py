"""A worker's report on its server, by the results of the requests to it."""

from inference.messages import Candidate, Done, ErrorCode, Failed, Outcome, Stats, Status, WorkerState
from inference.serving.server_health import SILENT_REQUESTS, ServerHealth

SILENT = Done("r", Outcome.DEADLINE, Stats(ms=2_000.0, canvases=1))
"""A request that was sent, and of which nothing was read until its deadline."""


def problem_of(health: ServerHealth) -> str:
    return health.in_status(Status(WorkerState.READY)).server_problem


def test_silent_server_is_a_problem_until_it_answers() -> None:
    health = ServerHealth("http://gpu:8000")
    health.answered()
    news = [health.heard(SILENT) for _ in range(SILENT_REQUESTS + 1)]
    assert news == [False] * (SILENT_REQUESTS - 1) + [True, False]
    assert "http://gpu:8000 has not answered for 2 s; typing continues" in problem_of(health)
    assert health.in_status(Status(WorkerState.READY)).server_up_s == 0
    assert health.heard(Done("r"))
    assert problem_of(health) == ""


def test_slow_or_unasked_server_is_no_problem() -> None:
    health = ServerHealth("http://gpu:8000")
    slow = Done("r", Outcome.DEADLINE, Stats(ms=2_000.0, encode_ms=1_900.0, steps=1, canvases=1))
    waited = Done("r", Outcome.DEADLINE, Stats(ms=2_000.0))
    for _ in range(SILENT_REQUESTS):
        health.heard(SILENT)
        health.heard(slow)
        health.heard(waited)
        health.heard(Done("r", Outcome.CANCELLED, Stats(ms=20.0, canvases=1)))
    assert problem_of(health) == ""
    for _ in range(SILENT_REQUESTS - 1):
        health.heard(SILENT)
    health.heard(Candidate("r", ("x",), (0.5,), 1.0))
    health.heard(SILENT)
    assert problem_of(health) == ""


def test_another_problem_is_news_and_the_same_is_not() -> None:
    health = ServerHealth("http://gpu:8000")
    told = [health.heard(Failed("r", ErrorCode.SERVER, said)) for said in ("503", "503", "401", "4\x1b[31m\n01" * 999)]
    assert told == [True, False, True, True]
    assert problem_of(health).isprintable() and len(problem_of(health)) <= 1_000

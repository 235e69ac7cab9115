"""Pauses between starts of a worker that keeps failing."""

from inference.messages import ErrorCode
from lsp_server.worker.state import DELAYS_S, Backoff


def test_restarts_pause_longer_each_time() -> None:
    backoff = Backoff(clock=lambda: 100.0)
    pauses = []
    for _ in range(len(DELAYS_S) + 3):
        backoff.failed("it died", ErrorCode.STOPPED)
        pauses.append(backoff.remaining_s)
    assert pauses == [*DELAYS_S, *[DELAYS_S[-1]] * 3]
    assert backoff.reason == "it died"


def test_a_pause_passes() -> None:
    now = 100.0
    backoff = Backoff(clock=lambda: now)
    backoff.failed("it died", ErrorCode.STOPPED, weight=5)
    assert backoff.remaining_s == DELAYS_S[4]
    now += DELAYS_S[4] + 1
    assert backoff.remaining_s == 0


def test_success_forgets_the_failures() -> None:
    backoff = Backoff(clock=lambda: 100.0)
    backoff.failed("it died", ErrorCode.STOPPED, weight=5)
    backoff.succeeded()
    assert (backoff.remaining_s, backoff.reason) == (0, "")
    backoff.failed("again", ErrorCode.STOPPED)
    assert backoff.remaining_s == 0

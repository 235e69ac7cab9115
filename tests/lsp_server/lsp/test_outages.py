"""How often the user hears that the model's server fails."""

from lsp_server.lsp.worker_connection import TELL_AGAIN_S, Outages

BUSY = "the server http://gpu:8000 is too busy (503 X: no upstream 17); try again in a moment"


def test_an_outage_is_told_once_however_long_it_lasts() -> None:
    outages = Outages()
    assert [outages.is_news(BUSY, at_s) for at_s in (0, 1, TELL_AGAIN_S, 10 * TELL_AGAIN_S)] == [True] + [False] * 3


def test_flapping_outage_is_told_seldom() -> None:
    outages = Outages()
    told = []
    for minute in range(20):
        told.append(outages.is_news(BUSY.replace("17", str(minute)), minute * 60))
        if minute < 5:
            outages.is_news("", minute * 60 + 30)
    assert told == [True] + [False] * 9 + [True] + [False] * 9


def test_another_problem_is_told() -> None:
    outages = Outages()
    token = "the server http://gpu:8000 refused the token: set INFILL_LS_SERVER_TOKEN (401 Unauthorized)"
    assert [outages.is_news(said, 0) for said in (BUSY, token, BUSY, token)] == [True, True, False, False]

"""How long to wait for a pause in typing. Uses a fake clock, so the tests take no time."""

from lsp_server.inline.service import Debounce

BASE_S = 0.1


def typed(debounce: Debounce, interval_s: float, keys: int = 20) -> float:
    """Typing at a steady pace; when the last key came."""
    for key in range(keys):
        debounce.typed(key * interval_s)
    return (keys - 1) * interval_s


def test_without_a_pause_set_nothing_waits() -> None:
    debounce = Debounce()
    debounce.filled(10.0)
    assert debounce.wait_s(0.0, typed(debounce, 0.05)) == 0.0


def test_a_fast_engine_is_asked_sooner_than_a_slow_one() -> None:
    fast, slow = Debounce(), Debounce()
    for _ in range(20):
        fast.filled(0.02)
        slow.filled(2.0)
    assert fast.wait_s(BASE_S, 0.0) < BASE_S / 2
    assert BASE_S * 0.9 < slow.wait_s(BASE_S, 0.0) <= BASE_S


def test_fast_typing_is_waited_out() -> None:
    debounce = Debounce()
    now = typed(debounce, 0.15)
    assert 0.15 < debounce.wait_s(BASE_S, now) < 0.25
    assert debounce.wait_s(BASE_S, now + 5) < BASE_S, "a pause later that is forgotten"


def test_slow_typing_does_not_make_it_wait() -> None:
    debounce = Debounce()
    assert debounce.wait_s(BASE_S, typed(debounce, 0.6)) < BASE_S


def test_it_never_waits_longer_than_a_few_times_what_was_set() -> None:
    debounce = Debounce()
    for _ in range(50):
        debounce.filled(60.0)
    assert debounce.wait_s(BASE_S, typed(debounce, 0.199, 50)) <= 4 * BASE_S

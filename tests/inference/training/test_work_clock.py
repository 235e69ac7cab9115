"""The time that a run reports and its schedule uses."""

from inference.training.trainer import WorkClock


def test_a_pause_does_not_count_and_neither_does_compiling() -> None:
    """The first lap is left out; one that is far longer than those before it counts as much as ten of them."""
    times = iter([0.0, 200.0, 202.0, 204.0, 1204.0, 1206.0])
    clock, seconds = WorkClock(lambda: next(times)), []
    for _ in range(5):
        clock.lap()
        seconds.append(clock.seconds)
    assert seconds == [0.0, 2.0, 4.0, 24.0, 26.0]

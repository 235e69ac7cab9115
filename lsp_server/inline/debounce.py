"""How long to wait for a pause in typing before asking the model. Times are in seconds, on any clock."""

_WEIGHT = 0.3
"""The weight of the newest observation against all earlier ones."""
_CHEAP_S = 0.4
"""A fill at least this slow deserves the whole pause."""
_LEAST_SHARE = 0.3
_MOST_SHARE = 4.0
_PAUSE_S = 1.0
"""Keystrokes further apart than this belong to separate bursts."""


class Debounce:
    """Observes the user's typing speed, the duration of fills, and how many of them are seen."""

    def __init__(self) -> None:
        self._typed_at = float("-inf")
        self._interval_s = _PAUSE_S
        self._fill_s = 0.0
        self._wasted = 0.0

    def typed(self, now_s: float) -> None:
        """The text has changed."""
        passed_s = now_s - self._typed_at
        self._typed_at = now_s
        self._interval_s = _PAUSE_S if passed_s > _PAUSE_S else _mean(self._interval_s, passed_s)

    def filled(self, took_s: float, *, used: bool) -> None:
        """Records the duration of a fill, and whether it was shown or came too late."""
        self._fill_s = _mean(self._fill_s, took_s)
        self._wasted = _mean(self._wasted, 0.0 if used else 1.0)

    def wait_s(self, base_s: float, now_s: float) -> float:
        """The pause to wait from now, for the user's setting `base_s`; 0 never waits.

        From 0.3 times that for a quick fill to all of it for a slow one, up to three times as long while results are
        thrown away, and at least the interval between two keystrokes.
        """
        if not base_s:
            return 0.0
        cost = min(self._fill_s / _CHEAP_S, 1.0)
        share = (_LEAST_SHARE + (1 - _LEAST_SHARE) * cost) * (1 + 2 * self._wasted)
        is_typing = now_s - self._typed_at < _PAUSE_S and self._interval_s < 2 * base_s
        wait_s = max(base_s * share, self._interval_s * 1.2 if is_typing else 0.0)
        return min(wait_s, base_s * _MOST_SHARE)


def _mean(before: float, now: float) -> float:
    return before + _WEIGHT * (now - before)

"""How far a fill is, in words and in per cent, from its drafts."""

from inference.messages import Draft


class DraftProgress:
    """Follows the drafts of one request. Holes that are near share a canvas; a new canvas starts at step 1 again."""

    def __init__(self) -> None:
        self._done = 0
        self._begun = 0
        self._step = 0

    def __call__(self, draft: Draft) -> tuple[str, int]:
        """Words such as `step 3 of 8`, or with several canvases `holes 4 to 6 of 9, step 3 of 8`; and a percentage."""
        holes = len(draft.pieces)
        begun = max((number for number, pieces in enumerate(draft.pieces, 1) if pieces), default=0)
        if draft.step < self._step and begun > self._begun:
            self._done = self._begun
        self._begun, self._step = begun, draft.step
        share = draft.step / max(draft.max_steps, 1)
        words = f"step {draft.step} of {draft.max_steps}"
        if begun > 0 and (self._done or begun < holes):
            words = f"{_numbers(self._done + 1, begun)} of {holes}, {words}"
        return words, int(100 * (self._done + (begun - self._done) * share) / max(holes, 1))


def _numbers(first: int, last: int) -> str:
    return f"hole {last}" if first >= last else f"holes {first} to {last}"

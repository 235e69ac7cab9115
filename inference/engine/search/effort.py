"""How much to try for a request: less for an automatic one, and no canvas if a continuation is good enough."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.engine.canvas import answered
from inference.engine.canvas.answered import RankedFill
from inference.messages import MAX_CANDIDATES, Hole, InfillRequest
from inference.models.properties import Properties

_QUICK_CONTINUATIONS = 3
_UNENDED, _QUICK_UNENDED = 0.5, 0.6


@dataclass(frozen=True)
class Effort:
    """The limits of one request. `continuations` 0: none. `max_steps` None: the checkpoint's default."""

    candidates: int
    continuations: int
    max_steps: int | None
    enough: float | None
    unended: float
    """Stop writing when the mean probability, over the continuations, that a hole continues falls below this."""

    @classmethod
    def of(cls, request: InfillRequest, properties: Properties) -> "Effort":
        """The effort for a request with this checkpoint."""
        candidates = min(max(1, request.candidates), MAX_CANDIDATES)
        lines = all(segment.single_line for segment in request.segments if isinstance(segment, Hole))
        most = request.max_steps or (properties.line_steps if lines else None)
        if not request.quick:
            return cls(candidates, properties.continuations, most, properties.enough, _UNENDED)
        steps = min(properties.quick_steps, most or properties.sampler.max_steps)
        continuations = min(_QUICK_CONTINUATIONS, properties.continuations)
        enough = properties.enough if properties.quick_enough is None else properties.quick_enough
        return cls(candidates, continuations, steps, enough, _QUICK_UNENDED)

    def suffices(self, found: Sequence[RankedFill]) -> bool:
        """Whether these continuations, best first, suffice: as many as wanted, and the best one likely."""
        some = [one for one in found if not any(answered.flaws(one))]
        return self.enough is not None and len(some) >= self.candidates and some[0].score >= self.enough

"""A request that the main model has answered, and what the other model is asked so that the two can be compared."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import FROM_SCRATCH, Budget, FillOptions
from lsp_server.usage.events import PairHole, Trigger
from lsp_server.usage.text_range import TextRange

MOST_HOLES = 8
"""A request about more holes is not sampled: the other model may need a request for each."""


@dataclass(frozen=True)
class AnsweredRequest:
    """What the user was answered: `texts` for the holes `spans` of `snapshot`, which are at `places` by now.

    `suggestions` are the keys of the statistics for each hole; None where the text stays as it is. Times count from
    when the model was asked; `first_ms` is None where no draft was shown. `computation` is the one that it came from.
    """

    snapshot: Snapshot
    spans: Sequence[Span]
    places: Sequence[TextRange]
    texts: Sequence[str]
    suggestions: Sequence[int | None]
    trigger: Trigger
    budget: Budget
    marker: str
    confidence: float | None
    first_ms: float | None
    whole_ms: float
    options: FillOptions = FROM_SCRATCH
    computation: str = ""
    at_s: float = field(default_factory=time.time)

    @property
    def can_be_asked_again(self) -> bool:
        """Whether the other model can be asked the same: few holes, written anew."""
        filled = any(key is not None for key in self.suggestions)
        return filled and len(self.spans) <= MOST_HOLES and self.options.strength >= 1

    def budget_for(self, most_ms: int) -> Budget:
        """The same effort, from now, but with as much as `most_ms` of time: how long it takes is to be seen."""
        deadline_ms = max(self.budget.deadline_ms, most_ms)
        return dataclasses.replace(self.budget.from_now(), deadline_ms=deadline_ms, background=True)

    def holes(self, keys: Sequence[int], others: Sequence[str] | None) -> tuple[PairHole, ...]:
        """What both wrote into each hole that the main model filled; `others` None: the other one wrote nothing.

        `keys` has one for each hole. A hole that the other model left as it is has nothing of it.
        """
        current = [self.snapshot.text[span.start : span.end] for span in self.spans]
        found = []
        for at, suggestion in enumerate(self.suggestions):
            if suggestion is not None:
                other = None if others is None or others[at] == current[at] else others[at]
                found.append(PairHole(keys[at], suggestion, str(self.spans[at].kind), self.texts[at], other))
        return tuple(found)

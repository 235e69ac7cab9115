"""What a user was answered, so that another model can be asked the same."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.documents.tracking import TextRange
from lsp_server.fill.pipeline import FROM_SCRATCH, Budget, FillOptions
from lsp_server.usage.events import Trigger


@dataclass(frozen=True)
class AnsweredRequest:
    """`texts` for the holes `spans` of `snapshot`, which are at `places` by now.

    `whole_ms` counts from when the model was asked. `suggestions` are the keys of the statistics for each hole; None
    where the text stays as it is. `computation` names where a suggestion came from.
    """

    snapshot: Snapshot
    spans: Sequence[Span]
    places: Sequence[TextRange]
    texts: Sequence[str]
    trigger: Trigger
    budget: Budget
    marker: str
    whole_ms: float
    options: FillOptions = FROM_SCRATCH
    suggestions: Sequence[int | None] = ()
    computation: str = ""
    at_s: float = field(default_factory=time.time)

"""Records an answer the user got, so that another model can be asked the same question."""

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
    """`texts` fill the holes `spans` of `snapshot`, which are now at `places`.

    `whole_ms` counts from the request to the model. `suggestions` are keys in the statistics; None: that text is
    unchanged.
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

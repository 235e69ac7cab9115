"""The model that is not the main one, with its own client, which tells the user nothing."""

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from inference.messages import Snippet, Status
from inference.models.catalogue import AUTO, EMBEDDED, names_no_folder
from inference.remote import address
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.documents.tracking import TextRange
from lsp_server.fill.pipeline import FROM_SCRATCH, Budget, FillOptions, fill
from lsp_server.settings.launch import partner_options, worker_options
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.usage.events import PairOutcome, Side, Trigger
from lsp_server.worker import WorkerClient, WorkerOptions, alive
from lsp_server.worker.options import is_remote, resolved

CLIENT_NAME = "infill-ls serve (shadow)"
CLOSE_S = 2.0
_LONGEST_NAME = 100


@dataclass(frozen=True)
class AnsweredRequest:
    """An answer the user got: the other model can be asked the same. `texts` fill the holes `spans` of `snapshot`,
    which are now at `places`.

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


@dataclass(frozen=True)
class OtherAnswer:
    """The other model's outcome and its text for each hole; None: nothing usable."""

    outcome: PairOutcome
    side: Side
    texts: Sequence[str] | None = None
    error: str = ""


class OtherModel:
    """Connects on its first request. `close` it when done."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._client = WorkerClient(options, name=CLIENT_NAME)

    @property
    def name(self) -> str:
        """Its name in the records."""
        return model_name(self._options, self._client.last_status)

    async def loaded(self) -> Status | None:
        """Its worker's status, once the model is loaded; starts one if needed. Raises WorkerFailure."""
        await alive.loaded(self._client)
        return self._client.last_status

    async def answer(self, request: AnsweredRequest, context: tuple[Snippet, ...], most_ms: int) -> OtherAnswer:
        """Its texts for `request`, within `most_ms`. Cancelling this cancels it in the worker. Raises WorkerFailure."""
        began_s, limit_ms = time.monotonic(), request.budget.deadline_ms
        budget = dataclasses.replace(
            request.budget.from_now(), deadline_ms=max(limit_ms, most_ms), background=True
        )  # the same effort but more time, to measure how long it takes
        result = await fill(
            self._client,
            request.snapshot,
            request.spans,
            budget,
            options=request.options,
            context=context,
            marker=request.marker,
        )
        whole_ms = (time.monotonic() - began_s) * 1000
        if result.stopped:
            return self.ended("stopped")
        if not result.candidates:
            return OtherAnswer("late" if result.late else "nothing", Side(self.name, whole_ms))
        best = result.candidates[0]
        return OtherAnswer("late" if whole_ms > limit_ms else "answered", Side(self.name, whole_ms), best.texts)

    def ended(self, outcome: PairOutcome, error: str = "") -> OtherAnswer:
        """The answer of a model that gave none. Keeps only the code of a failure: its message may name files."""
        return OtherAnswer(outcome, Side(self.name), error=error)

    async def close(self) -> None:
        """Leaves its worker, without waiting for a hung one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._client.close()


def other_options(settings: Settings, *, sends_token: bool) -> WorkerOptions | None:
    """The model to compare with: the partner or, if that is the main model, the embedded one. None: there is none."""
    if settings.model == PARTNER:
        return worker_options(msgspec.structs.replace(settings, model=EMBEDDED))
    return None if settings.partner.url is None else partner_options(settings, sends_token=sends_token)


def model_name(options: WorkerOptions, status: Status | None = None) -> str:
    """A model's name in the records: what the `status` of its worker says, or the last part of a folder or address."""
    if is_remote(options):
        served = status.model if status and not address.is_url(status.model) else ""
        name = served or options.server_model or resolved(options).model.partition("://")[2]
    elif names_no_folder(options.model):
        name = (status.model if status and options.model == AUTO else "") or options.model
    else:
        name = Path(options.model).name or options.model
    printable = "".join(letter if letter.isprintable() else "?" for letter in name)
    return printable[:_LONGEST_NAME]

"""The model that is not the main one, asked by a client of its own that tells the user nothing."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from inference.messages import Draft, ErrorCode, Snippet, Status
from inference.models.catalogue import EMBEDDED, names_no_folder
from inference.remote import address
from lsp_server.fill.pipeline import fill, partner_options
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.shadow.question import AnsweredRequest
from lsp_server.usage.events import PairOutcome, Side
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions, alive

CLIENT_NAME = "infill-ls serve (shadow)"
CLOSE_S = 2.0
_LONGEST_NAME = 100


@dataclass(frozen=True)
class OtherAnswer:
    """How the other model fared, and what it wrote into each hole; None: nothing of use."""

    outcome: PairOutcome
    side: Side
    texts: Sequence[str] | None = None
    error: str = ""


class OtherModel:
    """Connects when it is first asked. `close` it in the end."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._client = WorkerClient(options, name=CLIENT_NAME)

    @property
    def name(self) -> str:
        """What it is called in the records."""
        return model_name(self._options, self._client.last_status)

    async def loaded(self) -> Status | None:
        """How its worker is, once it has loaded the model; starts one if need be. Raises WorkerFailure."""
        await alive.loaded(self._client)
        return self._client.last_status

    async def answer(self, request: AnsweredRequest, context: tuple[Snippet, ...], most_ms: int) -> OtherAnswer:
        """What it writes into the holes of `request`, given up to `most_ms`. Cancelling this cancels it in the worker.

        Raises WorkerFailure.
        """
        began_s, drafted_s = time.monotonic(), list[float]()

        def on_draft(draft: Draft) -> None:
            if not drafted_s and any(draft.texts):
                drafted_s.append(time.monotonic())

        budget = request.budget_for(most_ms)
        result = await fill(
            self._client,
            request.snapshot,
            request.spans,
            budget,
            options=request.options,
            on_draft=on_draft,
            context=context,
            marker=request.marker,
        )
        whole_ms = (time.monotonic() - began_s) * 1000
        first_ms = (drafted_s[0] - began_s) * 1000 if drafted_s else None
        if result.stopped:
            return OtherAnswer("stopped", Side(self.name))
        if not result.candidates:
            return OtherAnswer("late" if result.late else "nothing", Side(self.name, first_ms, whole_ms))
        best = result.candidates[0]
        is_late = whole_ms > request.budget.deadline_ms
        side = Side(self.name, first_ms, whole_ms, best.confidence)
        return OtherAnswer("late" if is_late else "answered", side, best.texts)

    def failed(self, failure: WorkerFailure) -> OtherAnswer:
        """The answer of a model that failed. Of the failure the code is kept alone: its words may name files."""
        return OtherAnswer("failed", Side(self.name), error=failure.code.value)

    def broke(self) -> OtherAnswer:
        """The answer where we failed ourselves."""
        return OtherAnswer("failed", Side(self.name), error=ErrorCode.INTERNAL.value)

    def stopped(self) -> OtherAnswer:
        """The answer of a model that was stopped, or never asked, for something that matters more."""
        return OtherAnswer("stopped", Side(self.name))

    async def close(self) -> None:
        """Leave its worker, but do not wait for one that hangs."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._client.close()


def other_options(settings: Settings, *, sends_token: bool) -> WorkerOptions | None:
    """The model to compare with: the partner, and where that is the main model, the embedded one. None: there is none.

    Not `sends_token`: not the user chose the partner.
    """
    if settings.model == PARTNER:
        return WorkerOptions(EMBEDDED, settings.device, settings.dtype, settings.idle_seconds)
    return None if settings.partner.url is None else partner_options(settings, sends_token=sends_token)


def model_name(options: WorkerOptions, status: Status | None = None) -> str:
    """What a model is called in the records: of a folder the last part alone, and of a server what it serves.

    That says the `status` of its worker, once it knows; until then it is what the settings call it, or the address.
    """
    if options.is_remote:
        served = status.model if status and not address.is_url(status.model) else ""
        name = served or options.server_model or options.resolved().model.partition("://")[2]
    elif names_no_folder(options.model):
        name = options.model
    else:
        name = Path(options.model).name or options.model
    printable = "".join(letter if letter.isprintable() else "?" for letter in name)
    return printable[:_LONGEST_NAME]

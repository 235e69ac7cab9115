"""Samples what the user is shown, asks the other model the same while the user is idle, and looks at the next save.

A hole is found again by the text around it: if that has changed too, both models' texts stay uncompared.
"""

import asyncio
import dataclasses
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

from inference.deadline import Deadline
from inference.messages import Status
from inference.models.catalogue import EMBEDDED
from inference.remote import address
from lsp_server.features import AcceptedEvent, Feature, FillRecord, ShownEvent
from lsp_server.fill.pipeline import fill
from lsp_server.holes.segments import pinned_pieces
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.settings.worker_options import partner_options, worker_options
from lsp_server.usage.statistics import ShadowPair, StatisticsWriter, counted_language, today
from lsp_server.worker import WorkerClient, WorkerError, WorkerOptions

if TYPE_CHECKING:
    from lsp_server.session import Session

log = logging.getLogger(__name__)
CLIENT_NAME = "infill-ls serve (shadow)"
QUIET_S = 1.0
CLOSE_S = 2.0
MAX_HOLES = 8
"""Do not sample a request for more holes: the other model may need one request per hole."""
_MAX_SAMPLES = 16
"""Of more, the oldest are dropped."""
_AROUND_CHARACTERS = 120
_MAX_COMPARED_CHARACTERS = 500
"""Compares no more of a text: the time grows with the product of both lengths."""
_MAX_NAME_CHARACTERS = 100


@dataclass(eq=False)
class _Sample:
    """A request, and once its document is saved, the texts in its holes; None where a place is lost."""

    uri: str
    record: FillRecord
    pair: ShadowPair
    saved: asyncio.Future[list[str | None]]


class ShadowSampler(Feature):
    def __init__(self, session: "Session", ledger: StatisticsWriter) -> None:
        self._session = session
        self._ledger = ledger
        self._samples: dict[asyncio.Task[None], _Sample] = {}
        self._turn = asyncio.Lock()
        self._client: WorkerClient | None = None

    def shown(self, uri: str, event: ShownEvent) -> None:
        request = event.record
        settings = self._session.settings_of(uri)
        if (
            request is None
            or request.options.strength < 1
            or len(request.spans) > MAX_HOLES
            or settings.statistics == "off"
        ):
            return
        is_sampled = random.random() < settings.shadow.sample  # noqa: S311 - nobody gains anything from guessing it
        client = self._other_client() if is_sampled else None
        if client is None:
            return
        main = self._session.worker.client
        name = model_name(main.options, main.last_status)
        pair = ShadowPair(today(), counted_language(request.snapshot.language_id), name, "", "failed", request.took_ms)
        sample = _Sample(uri, request, pair, asyncio.get_running_loop().create_future())
        following = asyncio.create_task(self._follow(sample, client))
        self._samples[following] = sample
        following.add_done_callback(self._samples.pop)
        for oldest in list(self._samples)[:-_MAX_SAMPLES]:
            oldest.cancel()

    def accepted(self, uri: str, event: AcceptedEvent) -> None:
        if event.is_refined:  # by the other model itself
            self.closed(uri)

    def saved(self, uri: str) -> None:
        document = self._session.documents.get(uri)  # None: it was closed just now, and its samples are about to end
        for sample in self._samples.values():
            if document and sample.uri == uri and not sample.saved.done():
                sample.saved.set_result(_texts_in_holes(document.text, sample.record))

    def closed(self, uri: str) -> None:
        for following, sample in self._samples.items():
            if sample.uri == uri:
                following.cancel()

    async def ended(self) -> None:
        for following in self._samples:
            following.cancel()
        if self._client is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._client.close()

    def _other_client(self) -> WorkerClient | None:
        """The client of the other model, of the session's start; None if there is none."""
        if self._client is None and (
            options := other_model_options(self._session.settings, self._session.configuration.sends_partner_token)
        ):
            self._client = WorkerClient(options, name=CLIENT_NAME)
        return self._client

    async def _follow(self, sample: _Sample, client: WorkerClient) -> None:
        """Asks the other model the same, one sample at a time, when the user waits for nothing; compares both models
        with what is saved; and records it.
        """
        answer: tuple[ShadowPair, Sequence[str]] | None = sample.pair, ()
        async with self._turn:
            await asyncio.sleep(QUIET_S)
            while self._session.is_computing:  # noqa: ASYNC110 - nothing tells when that ends
                await asyncio.sleep(QUIET_S)
            try:
                answer = await self._fill_by_other(sample, client)
            except WorkerError as failure:
                log.info("no answer of the other model: %s", failure)
        if answer is None:
            return
        pair, other_texts = answer
        pair = pair._replace(other_model=model_name(client.options, client.last_status))
        saved = await sample.saved if other_texts else ()
        clear_holes = [(index, text) for index, text in enumerate(saved) if text is not None]
        if clear_holes:
            main_similarity = fmean(similarity(sample.record.texts[index], text) for index, text in clear_holes)
            other_similarity = fmean(similarity(other_texts[index], text) for index, text in clear_holes)
            pair = pair._replace(main_similarity=main_similarity, other_similarity=other_similarity)
        self._ledger.add(pair)

    async def _fill_by_other(self, sample: _Sample, client: WorkerClient) -> tuple[ShadowPair, Sequence[str]] | None:
        """Asks with the same effort, but leaves more time, to measure how long it takes. Returns what is known now and
        the other model's texts, if it has any; None if it may not be asked any more. Raises WorkerError.
        """
        record = sample.record
        settings = self._session.settings_of(sample.uri)  # which may have changed
        if settings.statistics == "off" or not settings.shadow.sample:
            return None
        await client.load()
        context = await self._session.context_for(record.snapshot, record.spans[0].start, client.last_status)
        if context is None:
            return None
        deadline = Deadline(max(record.budget.deadline.timeout_ms, settings.deadline_ms.invoked))
        budget = dataclasses.replace(record.budget, deadline=deadline, background=True)
        result = await fill(
            client, record.snapshot, record.spans, budget, options=record.options, context=context, marker=record.marker
        )
        took_ms = deadline.elapsed_ms
        is_late = result.late or took_ms > record.budget.deadline.timeout_ms
        outcome = "late" if is_late else "answered" if result.candidates else "nothing"
        texts = result.candidates[0].texts if result.candidates else ()
        return sample.pair._replace(outcome=outcome, other_ms=took_ms), texts


def similarity(a: str, b: str) -> float:
    """From 0, nothing in common, to 1: the same except for white space at the ends."""
    texts = (a.strip()[:_MAX_COMPARED_CHARACTERS], b.strip()[:_MAX_COMPARED_CHARACTERS])
    return 1.0 if texts[0] == texts[1] else SequenceMatcher(None, *texts, autojunk=False).ratio()


def _texts_in_holes(text: str, record: FillRecord) -> list[str | None]:
    """What is now in each hole of a request; None if its place is not clear."""
    return [
        _between(text, prefix, suffix) for prefix, suffix in pairwise(pinned_pieces(record.snapshot.text, record.spans))
    ]


def _between(text: str, prefix: str, suffix: str) -> str | None:
    prefix = prefix[-_AROUND_CHARACTERS:]
    suffix = suffix[:_AROUND_CHARACTERS]
    if text.count(prefix) != 1:
        return None
    start = text.index(prefix) + len(prefix)
    end = text.find(suffix, start)
    return None if end < 0 else text[start:end]


def other_model_options(settings: Settings, sends_token: bool) -> WorkerOptions | None:
    """The model to compare with: the partner or, if that is the main model, the embedded one. None: there is none."""
    if settings.model == PARTNER:
        return worker_options(msgspec.structs.replace(settings, model=EMBEDDED))
    return None if settings.partner.url is None else partner_options(settings, sends_token=sends_token)


def model_name(options: WorkerOptions, status: Status | None = None) -> str:
    """A model's name in the records, without a path: what the `status` of its worker says, or what names it."""
    reported = status.model if status and not address.is_url(status.model) else ""
    name = reported or options.server_model or options.model
    return (name.partition("://")[2].partition("/")[0] or Path(name).name)[:_MAX_NAME_CHARACTERS]

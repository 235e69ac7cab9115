"""Samples what the user is shown, asks the other model the same while the user is idle, and looks at the next save.

A hole is found again by the text around it: if that has changed too, both models' texts stay uncompared.
"""

import asyncio
import dataclasses
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

from inference.messages import Status
from inference.models.catalogue import EMBEDDED
from inference.remote import address
from lsp_server.carve.segments import pinned
from lsp_server.fill.feature import Asked, Feature, Shown, Taken
from lsp_server.fill.pipeline import fill
from lsp_server.settings.launch import partner_options, worker_options
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.usage.usage import Ledger, Pair, language_of, today
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions

if TYPE_CHECKING:
    from lsp_server.session import Session

log = logging.getLogger(__name__)
CLIENT_NAME = "infill-ls serve (shadow)"
QUIET_S = 1.0
CLOSE_S = 2.0
MOST_HOLES = 8
"""Do not sample a request for more holes: the other model may need one request per hole."""
_MOST_SAMPLES = 16
"""Of more, the oldest are dropped."""
_AROUND_CHARACTERS = 120
_MOST_CHARACTERS = 500
"""Compares no more of a text: the time grows with the product of both lengths."""
_LONGEST_NAME = 100


@dataclass
class _Sample:
    """`saved` are the texts in the holes at the first save, None where a place is lost; `others` the other model's."""

    uri: str
    asked: Asked
    pair: Pair
    task: "asyncio.Task[None] | None" = None
    others: Sequence[str] | None = None
    saved: Sequence[str | None] | None = None


class Sampler(Feature):
    def __init__(self, session: "Session", ledger: Ledger) -> None:
        self._session = session
        self._ledger = ledger
        self._samples: list[_Sample] = []
        self._turn = asyncio.Lock()
        self._client: WorkerClient | None = None

    def shown(self, uri: str, shown: Shown) -> None:
        asked = shown.asked
        settings = self._session.settings_of(uri)
        if asked is None or asked.options.strength < 1 or len(asked.spans) > MOST_HOLES or settings.statistics == "off":
            return
        is_sampled = random.random() < settings.shadow.sample  # noqa: S311 - nobody gains anything from guessing it
        client = self._other() if is_sampled else None
        if client is None:
            return
        main = self._session.worker.client
        name = model_name(main.options, main.last_status)
        pair = Pair(today(), language_of(asked.snapshot.language_id), name, "", "", asked.took_ms)
        sample = _Sample(uri, asked, pair)
        sample.task = asyncio.create_task(self._ask(sample, client))
        self._samples.append(sample)
        self._drop(self._samples[:-_MOST_SAMPLES])

    def taken(self, uri: str, taken: Taken) -> None:
        if taken.is_refined:  # by the other model itself
            self.closed(uri)

    def saved(self, uri: str) -> None:
        for sample in [each for each in self._samples if each.uri == uri and each.saved is None]:
            sample.saved = _texts_in(self._session.documents[uri].text, sample.asked)
            self._compare(sample)

    def closed(self, uri: str) -> None:
        self._drop([each for each in self._samples if each.uri == uri])

    async def ended(self) -> None:
        self._drop(self._samples)
        if self._client is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._client.close()

    def _other(self) -> WorkerClient | None:
        """The client of the other model, of the session's start; None if there is none."""
        if self._client is None and (
            options := other_options(self._session.settings, self._session.configuration.sends_partner_token)
        ):
            self._client = WorkerClient(options, name=CLIENT_NAME)
        return self._client

    def _drop(self, samples: Sequence[_Sample]) -> None:
        for each in tuple(samples):
            self._samples.remove(each)
            if each.task is not None:
                each.task.cancel()

    async def _ask(self, sample: _Sample, client: WorkerClient) -> None:
        """Asks for the same with the same effort, but leaves more time, to measure how long it takes. One at a time,
        when the user waits for nothing.
        """
        async with self._turn:
            await asyncio.sleep(QUIET_S)
            while self._session.is_computing:  # noqa: ASYNC110 - nothing tells when that ends
                await asyncio.sleep(QUIET_S)
            asked = sample.asked
            settings = self._session.settings_of(sample.uri)  # which may have changed
            outcome = "failed"
            other_ms: float | None = None
            try:
                context = None
                if settings.statistics == "on" and settings.shadow.sample > 0:
                    await client.load()
                    start = asked.spans[0].start
                    context = await self._session.context_for(asked.snapshot, start, client.last_status)
                if context is None:  # it may not be asked
                    self._drop([sample])
                    return
                deadline_ms = max(asked.budget.deadline_ms, settings.deadline_ms.invoked)
                budget = dataclasses.replace(asked.budget.from_now(), deadline_ms=deadline_ms, background=True)
                found = await fill(
                    client,
                    asked.snapshot,
                    asked.spans,
                    budget,
                    options=asked.options,
                    context=context,
                    marker=asked.marker,
                )
                other_ms = (time.monotonic() - budget.began_s) * 1000
                is_late = found.late or other_ms > asked.budget.deadline_ms
                outcome = "late" if is_late else "answered" if found.candidates else "nothing"
                sample.others = found.candidates[0].texts if found.candidates else None
            except WorkerFailure as failure:
                log.info("no answer of the other model: %s", failure)
            name = model_name(client.options, client.last_status)
            sample.pair = sample.pair._replace(other_model=name, outcome=outcome, other_ms=other_ms)
            self._compare(sample)

    def _compare(self, sample: _Sample) -> None:
        """Records a sample once nothing more can become known of it."""
        if not sample.pair.outcome or (sample.others is not None and sample.saved is None):
            return
        self._drop([sample])
        places = [(at, text) for at, text in enumerate(sample.saved or ()) if text is not None]
        if sample.others is None or not places:
            self._ledger.add(sample.pair)
            return
        main = fmean(similarity(sample.asked.texts[at], text) for at, text in places)
        other = fmean(similarity(sample.others[at], text) for at, text in places)
        self._ledger.add(sample.pair._replace(main_similarity=main, other_similarity=other))


def similarity(one: str, other: str) -> float:
    """From 0, nothing in common, to 1: the same except for white space at the ends."""
    texts = (one.strip()[:_MOST_CHARACTERS], other.strip()[:_MOST_CHARACTERS])
    return 1.0 if texts[0] == texts[1] else SequenceMatcher(None, *texts, autojunk=False).ratio()


def _texts_in(text: str, asked: Asked) -> list[str | None]:
    """What is now in each hole of a request; None if its place is not clear."""
    return [_between(text, before, after) for before, after in pairwise(pinned(asked.snapshot.text, asked.spans))]


def _between(text: str, before: str, after: str) -> str | None:
    before = before[-_AROUND_CHARACTERS:]
    after = after[:_AROUND_CHARACTERS]
    if text.count(before) != 1:
        return None
    start = text.index(before) + len(before)
    end = text.find(after, start)
    return None if end < 0 else text[start:end]


def other_options(settings: Settings, sends_token: bool) -> WorkerOptions | None:
    """The model to compare with: the partner or, if that is the main model, the embedded one. None: there is none."""
    if settings.model == PARTNER:
        return worker_options(msgspec.structs.replace(settings, model=EMBEDDED))
    return None if settings.partner.url is None else partner_options(settings, sends_token=sends_token)


def model_name(options: WorkerOptions, status: Status | None = None) -> str:
    """A model's name in the records, without a path: what the `status` of its worker says, or what names it."""
    told = status.model if status and not address.is_url(status.model) else ""
    name = told or options.server_model or options.model
    name = name.partition("://")[2].partition("/")[0] or Path(name).name
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:_LONGEST_NAME]

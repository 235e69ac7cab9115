"""Samples what the main model has answered, and asks the other model the same once the user does nothing.

One request at a time, the oldest first, `QUIET_S` after the last request and the last key. What matters more ends it:
any request of the user, an edit on the line of its hole, a document that is closed. Each request in the sample becomes
one row, however it ended, but for those whose document may no longer be sent. For one event loop.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from inference.messages import Snippet, Status
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document, Snapshot
from lsp_server.settings.schema import Settings
from lsp_server.shadow.following import FollowedHoles
from lsp_server.shadow.other_model import OtherModel, model_name
from lsp_server.shadow.pairing import Pairing
from lsp_server.shadow.question import AnsweredRequest
from lsp_server.shadow.watched_lines import WatchedLines
from lsp_server.usage.document_usage import language_of
from lsp_server.usage.events import Event
from lsp_server.usage.taken import LATER_S
from lsp_server.usage.text_range import TextRange
from lsp_server.worker import WorkerFailure, WorkerOptions
from lsp_server.worker.failure import traceback_of

log = logging.getLogger(__name__)
QUIET_S = 1.0
MOST_WAITING = 16
"""With more than so many requests in the sample, the oldest are never asked."""


class Host(Protocol):
    """The session, as far as this needs it."""

    @property
    def documents(self) -> Mapping[str, Document]:
        """The open documents."""

    @property
    def is_computing(self) -> bool:
        """Whether anything is computed that a user waits for, or soon may."""

    @property
    def model_status(self) -> Status | None:
        """What the main model's worker has last said of itself."""

    def settings_of(self, uri: str) -> Settings:
        """The settings for a document."""

    async def may_send(self, snapshot: Snapshot) -> bool:
        """Whether a model may see a document."""

    async def context_for(self, snapshot: Snapshot, offset: int, status: Status | None) -> tuple[Snippet, ...]:
        """Text of other files for a model of this status."""


class Shadow:
    """`tell` is given the document of each event and the event. `chance` decides what is in the sample."""

    def __init__(
        self,
        host: Host,
        tell: Callable[[str, Event], None],
        chance: random.Random | None = None,
        *,
        quiet_s: float = QUIET_S,
        later_s: float = LATER_S,
    ) -> None:
        self._host, self._tell = host, tell
        self._chance = chance or random.Random()  # noqa: S311 - nobody gains anything from guessing it
        self._quiet_s, self._later_s = quiet_s, later_s
        self._main = WorkerOptions()
        self._other: OtherModel | None = None
        self._documents: dict[str, FollowedHoles] = {}
        self._queue: deque[Pairing] = deque()
        self._running: tuple[Pairing, asyncio.Task[None], WatchedLines] | None = None
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None

    def configure(self, main: WorkerOptions, other: WorkerOptions | None) -> None:
        """Say which the two models are; without an other one there is no sample."""
        self._main, self._other = main, None if other is None else OtherModel(other)

    def answered(self, request: AnsweredRequest) -> None:
        """The user was answered. Never waits."""
        uri = request.snapshot.uri
        settings, document = self._host.settings_of(uri), self._host.documents.get(uri)
        if self._other is None or document is None or settings.statistics == "off" or not request.can_be_asked_again:
            return
        if self._chance.random() >= settings.shadow.sample:
            return
        followed = self._followed(document)
        pairing = Pairing(
            request,
            lambda event: self._tell(uri, event),
            document=followed.number,
            language=language_of(document),
            main=model_name(self._main, self._host.model_status),
            keeps_texts=settings.shadow.texts,
        )
        followed.add(pairing.key, request, pairing.seen)
        self._queue.append(pairing)
        while len(self._queue) > MOST_WAITING:
            self._queue.popleft().finish(self._other.stopped())
        self._wait()

    def asked(self) -> None:
        """The user asks for something."""
        self._stop_running()
        self._wait()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The user waits for something inside the block."""
        self._held += 1
        self.asked()
        try:
            yield
        finally:
            self._held -= 1
            self._wait()

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """A document has changed."""
        if followed := self._documents.get(uri):
            followed.changed(changes)
        if self._running and self._running[0].uri == uri and self._running[2].touched(changes):
            self._stop_running()
        self._wait()

    def saved(self, uri: str) -> None:
        """A document was saved."""
        if followed := self._documents.get(uri):
            followed.saved()

    def forget(self, uri: str) -> None:
        """A document was closed, or may hold secrets: what waits for the other model is dropped, without a row."""
        for pairing in [each for each in self._queue if each.uri == uri]:
            pairing.drop()
            self._queue.remove(pairing)
        if self._running and self._running[0].uri == uri:
            self._running[0].drop()
            self._stop_running()
        if followed := self._documents.pop(uri, None):
            followed.close()

    def withdraw(self, uri: str, computation: str) -> None:
        """The partner is asked to improve this answer: what stands there then says nothing of the two models."""

        def is_it(pairing: Pairing) -> bool:
            return pairing.uri == uri and pairing.request is not None and pairing.request.computation == computation

        self._drop(is_it)
        if followed := self._documents.get(uri):
            followed.withdraw(computation)

    def refined(self, uri: str, places: Sequence[TextRange]) -> None:
        """The partner is asked to improve what stands at these places: nothing is compared there."""
        if followed := self._documents.get(uri):
            keys = followed.withdraw_at(places)
            self._drop(lambda pairing: pairing.key in keys)

    async def close(self) -> None:
        """Ask nothing any more, and leave the other model's worker."""
        for uri in tuple(self._documents):
            self.forget(uri)
        if self._timer is not None:
            self._timer.cancel()
        other, self._other = self._other, None
        if other is not None:
            await other.close()

    def _followed(self, document: Document) -> FollowedHoles:
        known = self._documents.get(document.uri)
        if known is None or known.document is not document:
            self.forget(document.uri)
            known = self._documents[document.uri] = FollowedHoles(document, self._later_s)
        return known

    def _drop(self, is_it: Callable[[Pairing], bool]) -> None:
        """Ask nothing for these, and record nothing."""
        for pairing in [each for each in self._queue if is_it(each)]:
            pairing.drop()
            self._queue.remove(pairing)
        if self._running and is_it(self._running[0]):
            self._running[0].drop()
            self._stop_running()

    def _stop_running(self) -> None:
        if self._running is not None:
            self._running[1].cancel()

    def _wait(self) -> None:
        """Ask the next one once all has been quiet from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue and self._running is None:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._ask_next)

    def _ask_next(self) -> None:
        if self._other is None or not self._queue:  # what waited was forgotten meanwhile
            return
        if self._held or self._host.is_computing:
            self._wait()
            return
        self._timer, pairing = None, self._queue.popleft()
        document = self._documents[pairing.uri]
        lines = WatchedLines(document.document.text, document.places(pairing.key))
        task = asyncio.create_task(self._run(pairing, self._other))
        self._running = (pairing, task, lines)
        task.add_done_callback(partial(self._ended, pairing, self._other))

    def _ended(self, pairing: Pairing, other: OtherModel, task: "asyncio.Task[None]") -> None:
        """Also of a task that was cancelled before its first step, of which nothing ever ran."""
        if task.cancelled():
            pairing.finish(other.stopped())
        self._running = None
        self._wait()

    async def _run(self, pairing: Pairing, other: OtherModel) -> None:
        try:
            await self._ask(pairing, other)
        except WorkerFailure as failure:
            log.info("no answer of the other model: %s", failure)
            pairing.finish(other.failed(failure))
        except Exception as error:  # a fault of ours, of which the user need not know
            log.error("the other model was not asked: %s", traceback_of(error))
            pairing.finish(other.broke())

    async def _ask(self, pairing: Pairing, other: OtherModel) -> None:
        status = await other.loaded()
        request = pairing.request
        if request is None:
            return
        snapshot = request.snapshot
        gathering = self._host.context_for(snapshot, request.spans[0].start, status)
        context, may_send = await asyncio.gather(gathering, self._host.may_send(snapshot))
        settings = self._host.settings_of(snapshot.uri)  # which may have changed while this waited
        if not may_send or settings.statistics == "off" or not settings.shadow.sample:
            pairing.drop()
            return
        pairing.finish(await other.answer(request, context, settings.deadline_ms.invoked))

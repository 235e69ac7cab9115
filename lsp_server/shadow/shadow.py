"""Samples the main model's answers, and asks the other model the same while the user is idle, one at a time."""

import asyncio
import logging
import random
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from inference.messages import ErrorCode
from lsp_server.documents.change import Change
from lsp_server.documents.tracking import TextRange
from lsp_server.fill.host import Host
from lsp_server.shadow.other_model import AnsweredRequest, OtherModel, model_name
from lsp_server.shadow.sampled import Sampled
from lsp_server.usage.events import Event
from lsp_server.usage.taken import LATER_S
from lsp_server.worker import WorkerFailure, WorkerOptions
from lsp_server.worker.failure import traceback_of

log = logging.getLogger(__name__)
QUIET_S = 1.0
MOST_WAITING = 16
"""Limits the sample; the oldest requests beyond it are never asked."""
MOST_FOLLOWED = 64
MOST_HOLES = 8
"""Do not sample a request for more holes: the other model may need one request per hole."""


class Shadow:
    """`tell` receives each event with its document. `chance` selects the sample."""

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
        self._numbers: dict[str, int] = {}
        """Each document's number in the records: random, and new at each opening."""
        self._followed: deque[Sampled] = deque()
        self._queue: deque[Sampled] = deque()
        self._running: tuple[Sampled, asyncio.Task[None]] | None = None
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None

    def configure(self, main: WorkerOptions, other: WorkerOptions | None) -> None:
        """Sets the two models; without another model there is no sample."""
        self._main, self._other = main, None if other is None else OtherModel(other)

    def answered(self, request: AnsweredRequest) -> None:
        """The user got an answer. Never waits."""
        uri = request.snapshot.uri
        settings, document = self._host.settings_of(uri), self._host.documents.get(uri)
        if self._other is None or document is None or settings.statistics == "off" or not _can_be_asked_again(request):
            return
        if self._chance.random() >= settings.shadow.sample:
            return
        number = self._numbers.setdefault(uri, secrets.randbits(62))
        name = model_name(self._main, self._host.model_client.last_status)
        sampled = Sampled(request, document, number, name, partial(self._tell, uri))
        sampled.look_later(self._later_s)
        self._followed.append(sampled)
        self._queue.append(sampled)
        while len(self._queue) > MOST_WAITING:
            self._queue.popleft().finish(self._other.ended("stopped"))
        while len(self._followed) > MOST_FOLLOWED:
            self._followed.popleft().drop()
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
        for each in self._followed:
            if each.uri == uri:
                each.changed(changes)
        self._wait()

    def saved(self, uri: str) -> None:
        """A document was saved."""
        for each in self._followed:
            if each.uri == uri:
                each.saved()

    def forget(self, uri: str) -> None:
        """A document was closed, or may hold secrets: drops its waiting requests, without a row."""
        self._numbers.pop(uri, None)
        self._drop(lambda each: each.uri == uri)

    def leave_out(self, uri: str, computation: str = "", places: Sequence[TextRange] = ()) -> None:
        """The partner is asked to improve this answer, or these places: there is nothing to compare."""
        self._drop(
            lambda each: each.uri == uri and ((computation and each.computation == computation) or each.is_at(places))
        )

    async def close(self) -> None:
        """Stops asking, and leaves the other model's worker."""
        self._drop(lambda _: True)
        if self._timer is not None:
            self._timer.cancel()
        other, self._other = self._other, None
        if other is not None:
            await other.close()

    def _drop(self, is_it: Callable[[Sampled], object]) -> None:
        """Asks and records nothing more for these."""
        for each in [each for each in self._followed if is_it(each)]:
            each.drop()
            self._followed.remove(each)
        self._queue = deque(each for each in self._queue if not each.is_dropped)
        if self._running and self._running[0].is_dropped:
            self._stop_running()

    def _stop_running(self) -> None:
        if self._running is not None:
            self._running[1].cancel()

    def _wait(self) -> None:
        """Asks the next one after a quiet period from now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue and self._running is None:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._ask_next)

    def _ask_next(self) -> None:
        if self._other is None or not self._queue:  # forgotten meanwhile
            return
        if self._held or self._host.is_computing:
            self._wait()
            return
        self._timer, sampled = None, self._queue.popleft()
        task = asyncio.create_task(self._run(sampled, self._other))
        self._running = (sampled, task)
        task.add_done_callback(partial(self._ended, sampled, self._other))

    def _ended(self, sampled: Sampled, other: OtherModel, task: "asyncio.Task[None]") -> None:
        """Also handles a task cancelled before its first step, which never ran."""
        if task.cancelled():
            sampled.finish(other.ended("stopped"))
        self._running = None
        self._wait()

    async def _run(self, sampled: Sampled, other: OtherModel) -> None:
        try:
            await self._ask(sampled, other)
        except WorkerFailure as failure:
            log.info("no answer of the other model: %s", failure)
            sampled.finish(other.ended("failed", failure.code.value))
        except Exception as error:  # our own bug; do not trouble the user
            log.error("the other model was not asked: %s", traceback_of(error))
            sampled.finish(other.ended("failed", ErrorCode.INTERNAL.value))

    async def _ask(self, sampled: Sampled, other: OtherModel) -> None:
        status = await other.loaded()
        request = sampled.request
        if request is None:
            return
        snapshot = request.snapshot
        gathering = self._host.context_for(snapshot, request.spans[0].start, status)
        context, may_send = await asyncio.gather(gathering, self._host.may_send(snapshot))
        settings = self._host.settings_of(snapshot.uri)  # which may have changed meanwhile
        if not may_send or settings.statistics == "off" or not settings.shadow.sample:
            self._drop(lambda each: each is sampled)
            return
        sampled.finish(await other.answer(request, context, settings.deadline_ms.invoked))


def _can_be_asked_again(request: AnsweredRequest) -> bool:
    """Whether the same can be asked of the other model: few holes, filled from scratch."""
    is_filled = any(key is not None for key in request.suggestions)
    return is_filled and len(request.spans) <= MOST_HOLES and request.options.strength >= 1

"""Meets a server: checks that text may go there and which of its models to use, and repeats that after a refusal.

Both kinds of servers use it: a vLLM that holds pins (`vllm`), and an autoregressive partner (`partner`).
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from inference.messages import Candidate, Done, Draft
from inference.models.family import ModelError, OnProgress
from inference.remote import address
from inference.remote.address import Address, SettingNames
from inference.remote.answers import ServedModel
from inference.remote.client import Client, ServerRole
from inference.remote.pause import ServerError
from inference.serving.infiller import RemoteSteps
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)
_T = TypeVar("_T")
MEETING_S = 30.0
"""How long a server may take to list its models."""
MEET_AGAIN_S = 30.0
"""After a refusal, meet the server again, but no sooner than this after the last time."""
_LONGEST_NAME = 100


def allowed(arguments: WorkerArguments, names: SettingNames) -> Address:
    """The server that `arguments.model` names. Raises ModelError, in these names, if nothing may be sent there."""
    try:
        at = address.parse(arguments.model, names)
    except address.AddressError as error:
        raise ModelError(str(error)) from error
    if refused := at.why_refused(plain_http=arguments.plain_http, names=names):
        raise ModelError(refused)
    return at


async def in_time(meeting: Awaitable[_T], url: str, limit_s: float) -> _T:
    """The result of a meeting. Raises ModelError, also if it takes longer than `limit_s`."""
    try:
        async with asyncio.timeout(limit_s):
            return await meeting
    except TimeoutError as error:
        raise ModelError(f"{url} has not answered for {limit_s:g} s; see that it runs") from error


def about_token(error: ModelError, arguments: WorkerArguments, setting: str) -> ModelError:
    """The same error, with a note if the cause is a token that was kept back."""
    asked = error.__cause__
    if arguments.sends_token or not isinstance(asked, ServerError) or asked.status not in (401, 403):
        return error
    return ModelError(
        f"{error}. No token is sent there, for a workspace's infill-ls.toml chose this server, or http to it; to send "
        f"yours, set `{setting}` in your own settings"
    )


def chosen(listed: list[ServedModel], wanted: str | None, url: str, setting: str) -> ServedModel:
    """The model named `wanted`; None: the only one. Raises ModelError, which names `setting`."""
    names = ", ".join(shown(model.id) for model in listed[:10]) or "none"
    found = [model for model in listed if wanted is None or model.id == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(f"{url} has several models ({names}); name one with {setting} or --server-model")
    raise ModelError(f"{url} has no model {wanted or ''}; it has {names}; set {setting} or --server-model")


def shown(name: str) -> str:
    """A server's name for a model, shortened for the user. It is printable (answers.py)."""
    return name[:_LONGEST_NAME]


@asynccontextmanager
async def connecting(
    arguments: WorkerArguments, names: SettingNames, role: ServerRole, token: str, on_progress: OnProgress
) -> AsyncIterator[tuple[Client, Address]]:
    """A client of the server that `arguments.model` names, and its address; closes it if the meeting fails.

    Raises ModelError, which says what to do.
    """
    at = allowed(arguments, names)
    client = Client(at.url, token=token, is_here=at.is_here, role=role)
    try:
        on_progress(0.1, f"asking {at.place}")
        yield client, at
    except ModelError as error:
        await client.close()
        raise about_token(error, arguments, role.setting) from error
    except BaseException:
        await client.close()
        raise
    on_progress(1.0, "connected")


class ServedInfiller(ABC):
    """A model on a server, as the worker knows it. See `serving.infiller.RemoteInfiller`.

    After an unexpected refusal there may be another server behind the same URL, so it is met again.
    """

    dtype = ""
    """The server does not say."""
    note = ""

    def __init__(self, client: Client, place: str, arguments: WorkerArguments) -> None:
        """`place` is the server's host and port."""
        self._client, self._arguments, self.device = client, arguments, place
        self._meeting = MeetingAgain(self._meet_again)

    async def close(self) -> None:
        """Closes the connections."""
        await self._meeting.close()
        await self._client.close()

    @abstractmethod
    async def _meet_again(self) -> None:
        """Finds out the server's current state, and stores it. Raises ModelError."""


class MeetingAgain:
    """Meets a server again, in the background, when it refuses what it used to accept: it may be a different one."""

    def __init__(self, meet: Callable[[], Awaitable[None]]) -> None:
        """`meet` finds out the server's current state, and stores it. It may raise ModelError."""
        self._meet = meet
        self._meeting: asyncio.Task[None] | None = None
        self._met_s = -MEET_AGAIN_S

    def refused(self) -> None:
        """The server refused a request."""
        now_s = time.monotonic()
        if self._met_s + MEET_AGAIN_S <= now_s:
            self._met_s = now_s
            self._meeting = asyncio.create_task(self._meet_again(), name="meet")

    async def close(self) -> None:
        """Ends a running meeting."""
        if self._meeting is not None:
            self._meeting.cancel()
            await asyncio.wait([self._meeting])

    async def _meet_again(self) -> None:
        try:
            async with asyncio.timeout(MEET_AGAIN_S):
                await self._meet()
        except (ModelError, TimeoutError) as error:
            log.warning("the server that refused a request does not say what it serves: %s", error)


class Watched:
    """The work on one request; calls `refused` if the server does not accept it."""

    def __init__(self, steps: RemoteSteps, refused: Callable[[], None]) -> None:
        self._steps, self._refused = steps, refused
        self._events = self._work()

    def __aiter__(self) -> AsyncIterator[Draft | Candidate | Done]:
        """Yields events as they arrive."""
        return self._events

    def amend(self, hole: int, text: str) -> None:
        """Pins `text`, the whole text now at the start of a hole. Raises RequestError if there is no such hole."""
        self._steps.amend(hole, text)

    async def aclose(self) -> None:
        """Aborts everything still running."""
        await self._events.aclose()
        await self._steps.aclose()

    async def _work(self) -> AsyncGenerator[Draft | Candidate | Done, None]:
        try:
            async for event in self._steps:
                yield event
        except ServerError as error:
            if error.status in (400, 404):
                self._refused()
            raise

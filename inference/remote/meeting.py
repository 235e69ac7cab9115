"""Meets a server: checks that text may go there and which of its models to use, and repeats that after a refusal.

Both kinds of servers use it: a vLLM that holds pins (`vllm`), and an autoregressive partner (`partner`).
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from inference.models.family import ModelError, OnProgress
from inference.remote import address
from inference.remote.address import Address, ServerRole
from inference.remote.answers import ServedModel
from inference.remote.client import Client
from inference.remote.pause import ServerError
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)
_T = TypeVar("_T")
MEETING_S = 30.0
"""How long a server may take to list its models."""
MEET_AGAIN_S = 30.0
"""After a refusal, meet the server again, but no sooner than this after the last time."""
_LONGEST_NAME = 100


def allowed(arguments: WorkerArguments, role: ServerRole) -> Address:
    """The server that `arguments.model` names. Raises ModelError if nothing may be sent there."""
    try:
        at = address.parse(arguments.model, role)
    except address.AddressError as error:
        raise ModelError(str(error)) from error
    if refused := at.why_refused(plain_http=arguments.plain_http, role=role):
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
    arguments: WorkerArguments, role: ServerRole, token: str, on_progress: OnProgress
) -> AsyncIterator[tuple[Client, Address]]:
    """A client of the server that `arguments.model` names, and its address; closed if that fails. Raises ModelError."""
    at = allowed(arguments, role)
    client = Client(at.url, token=token, is_here=at.is_here, role=role)
    try:
        on_progress(0.1, f"asking {at.place}")
        yield client, at
    except ModelError as error:
        await client.close()
        raise about_token(error, arguments, role.url) from error
    except BaseException:
        await client.close()
        raise
    on_progress(1.0, "connected")


class ServedInfiller(ABC):
    """A model on a server (`RemoteInfiller`). After a refusal it may be another one, so the server is met again."""

    dtype = ""
    """The server does not say."""
    note = ""

    def __init__(self, client: Client, place: str, arguments: WorkerArguments) -> None:
        """`place` is the server's host and port."""
        self._client, self._arguments, self.device = client, arguments, place
        self._meeting: asyncio.Task[None] | None = None
        self._met_s = -MEET_AGAIN_S

    async def close(self) -> None:
        """Closes the connections."""
        if self._meeting is not None:
            self._meeting.cancel()
            await asyncio.wait([self._meeting])
        await self._client.close()

    def _refused(self) -> None:
        """The server refused a request: meets it again in the background."""
        now_s = time.monotonic()
        if self._met_s + MEET_AGAIN_S <= now_s:
            self._met_s = now_s
            self._meeting = asyncio.create_task(self._meet_in_time(), name="meet")

    async def _meet_in_time(self) -> None:
        try:
            async with asyncio.timeout(MEET_AGAIN_S):
                await self._meet_again()
        except (ModelError, TimeoutError) as error:
            log.warning("the server that refused a request does not say what it serves: %s", error)

    @abstractmethod
    async def _meet_again(self) -> None:
        """Finds out the server's current state, and stores it. Raises ModelError."""

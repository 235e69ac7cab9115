"""A model on a server, of either kind: a vLLM that holds pins (`vllm`), or an autoregressive partner (`partner`).

The handshake checks that text may go there and which of its models to use; a refusal repeats it. `_KINDS` has a line
for each kind of server.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from importlib import import_module
from typing import Any, ClassVar

from inference.engine.canvas.plan import text_and_holes
from inference.engine.errors import CANNOT_JUDGE, RequestError
from inference.engine.work import Counters
from inference.messages import Candidate, Done, Draft, EditKind, InfillRequest, Outcome, Request
from inference.models.family import ModelError, OnProgress
from inference.remote import address, http, token
from inference.remote.address import EDITS, MODEL, PARTNER, ServerRole
from inference.remote.http import Client, ServedModel, ServerError
from inference.serving.jobs import Work
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)
AGAIN_AFTER_S = 30.0
"""After a refusal, repeat the handshake, but no sooner than this after the last time."""
_LONGEST_NAME = 100


def shown(name: str) -> str:
    """A server's name for a model, shortened for the user. It is printable (http.py)."""
    return name[:_LONGEST_NAME]


RemoteEvent = Draft | Candidate | Done


class RemoteWork(ABC):
    """The work on a request (`serving.jobs.Work`): drafts if requested, candidates, best first, then Done."""

    def __init__(self, server: "ServedInfiller", request: Request, deadline: float | None) -> None:
        """`deadline`: seconds of `time.monotonic()`. Raises RequestError."""
        if not isinstance(request, InfillRequest):
            raise RequestError(CANNOT_JUDGE)
        self._server = server
        self.request = request
        self._deadline = deadline
        self._parts = text_and_holes(request)
        self.counters = Counters()
        self.news = asyncio.Event()
        """Set when there may be something to report or redo."""
        self._events = self._work()

    def __aiter__(self) -> AsyncIterator[RemoteEvent]:
        return self._events

    def amend(self, hole: int, text: str) -> None:
        if not 0 <= hole < len(self._parts.holes):
            raise RequestError(f"the request has no hole {hole}")
        self._pin(hole, text)
        self.news.set()

    async def aclose(self) -> None:
        await self._events.aclose()

    @abstractmethod
    def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        """All events, Done last."""

    @abstractmethod
    def _pin(self, hole: int, text: str) -> None:
        """`text` is now at the start of a hole of the request."""

    def _done(self) -> Done:
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        return Done(self.request.id, outcome, self.counters.stats())

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline


class ServedInfiller(ABC):
    """A model on a server (`serving.jobs.Infiller`). After a refusal it may be another one: then it looks again."""

    role: ClassVar[ServerRole] = MODEL
    model_setting: ClassVar[str] = "server.model"
    """Names one of several models."""
    handshake_s: ClassVar[float] = 30.0
    """How long a server may take to say what it serves."""
    model = ""
    """Its name, for the user."""
    context_tokens = 0
    partner = ""
    """How to ask it, one of `inference.messages.PartnerKind`; empty: it is a vLLM that holds pins."""
    sees_drafts = False
    edits: EditKind | None = None
    """The prompt of an edit model."""

    def __init__(self, client: Client, arguments: WorkerArguments) -> None:
        """Call `look` before anything else."""
        self.client = client
        self.device = client.at.place
        self._arguments = arguments
        self._handshake: asyncio.Task[None] | None = None
        self._shaken_s = -AGAIN_AFTER_S

    @abstractmethod
    async def look(self) -> None:
        """Finds out what the server serves now, and stores it. Raises ModelError."""

    async def listed_model(self) -> ServedModel:
        """The wanted one of the server's models, or its only one. Raises ModelError, AnswerError and ServerError."""
        url, wanted = self.client.url, self._arguments.server_model
        listed = await http.models(self.client)
        names = ", ".join(shown(model.id) for model in listed[:10]) or "none"
        found = [model for model in listed if wanted is None or model.id == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            raise ModelError(
                f"{url} has several models ({names}); name one with {self.model_setting} or --server-model"
            )
        raise ModelError(
            f"{url} has no model {wanted or ''}; it has {names}; set {self.model_setting} or --server-model"
        )

    @abstractmethod
    def infill(self, request: Request, *, deadline: float | None = None) -> Work:
        """Starts on a request. `deadline`: `time.monotonic()` seconds. Raises RequestError."""

    def facts(self) -> dict[str, Any]:
        names = ("model", "device", "context_tokens", "partner", "sees_drafts", "edits")
        return {name: getattr(self, name) for name in names}

    async def close(self) -> None:
        if self._handshake is not None:
            self._handshake.cancel()
            await asyncio.wait([self._handshake])
        await self.client.close()

    def look_later(self) -> None:
        """The server refused a request: looks again in the background."""
        now_s = time.monotonic()
        if self._shaken_s + AGAIN_AFTER_S <= now_s:
            self._shaken_s = now_s
            self._handshake = asyncio.create_task(self._look_in_time(), name="handshake")

    async def _look_in_time(self) -> None:
        try:
            async with asyncio.timeout(AGAIN_AFTER_S):
                await self.look()
        except (ModelError, TimeoutError) as error:
            log.warning("the server that refused a request does not say what it serves: %s", error)


_KINDS = {
    MODEL: ("inference.remote.vllm.infilling", "VllmInfiller"),
    PARTNER: ("inference.remote.partner.filling", "PartnerInfiller"),
    EDITS: ("inference.remote.edits", "ServedEditModel"),
}


def role_of(arguments: WorkerArguments) -> ServerRole:
    """How the user sets up this server."""
    return EDITS if arguments.edits else PARTNER if arguments.partner else MODEL


async def connect(
    arguments: WorkerArguments, on_progress: OnProgress, *, limit_s: float | None = None
) -> ServedInfiller:
    """The server on the command line, with the user's token if it may be sent there. Raises ModelError.

    It says within `limit_s` what it serves; None: the kind's own limit.
    """
    role = role_of(arguments)
    module, name = _KINDS[role]
    kind: type[ServedInfiller] = getattr(import_module(module), name)  # each needs libraries that others do not
    try:
        at = address.parse(arguments.model, role)
    except address.AddressError as error:
        raise ModelError(str(error)) from error
    if refused := at.why_refused(plain_http=arguments.plain_http, role=role):
        raise ModelError(refused)
    on_progress(0.1, f"asking {at.place}")
    client = Client(at, token=token.read(role=role) if arguments.sends_token else "", role=role)
    infiller = kind(client, arguments)
    try:
        async with asyncio.timeout(limit_s := limit_s or infiller.handshake_s):
            await infiller.look()
    except BaseException as error:
        await client.close()
        if isinstance(error, TimeoutError):
            raise ModelError(f"{at.url} has not answered for {limit_s:g} s; check that it is running") from error
        cause = error.__cause__
        if arguments.sends_token or not isinstance(cause, ServerError) or cause.status not in (401, 403):
            raise
        raise ModelError(
            f"{error}. No token is sent there, for a workspace's infill-ls.toml chose this server, or http to it; to "
            f"send yours, set `{role.url}` in your own settings"
        ) from error
    client.on_refused = infiller.look_later
    return infiller

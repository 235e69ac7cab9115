"""The base class of models on servers: a vLLM with pinned canvases (`vllm`), an autoregressive partner, an edit model.

The handshake checks that text may go there and which of its models to use; a refusal repeats it. `_KINDS` has a line
for each kind of server.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from inference.engine.canvas.plan import text_and_holes
from inference.engine.errors import CANNOT_JUDGE_MESSAGE, RequestError
from inference.engine.request_run import RequestCounters
from inference.messages import Done, EditKind, InfillRequest, Outcome
from inference.models.family import ModelError, OnProgress
from inference.remote import address, server_token
from inference.remote.address import EDIT_MODEL_SERVER, MODEL_SERVER, PARTNER_SERVER
from inference.remote.http import AnswerError, ModelServerClient, ServerError, decode_json
from inference.serving.scheduler import Job, JobEvent
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)
RETRY_AFTER_S = 30.0
"""After a refusal, repeat the handshake, but not more often than this."""
_MAX_NAME_CHARACTERS = 100


class ServedModel(msgspec.Struct, frozen=True):
    """A model that a server lists. `root` is the folder or hub id that it was started with, on its own machine.

    `max_model_len` limits the tokens of prompt and answer; None: the server does not say.
    """

    id: Annotated[str, Meta(max_length=500)]
    root: Annotated[str, Meta(max_length=4096)] | None = None
    max_model_len: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if a name contains terminal control characters."""
        if not (self.id + (self.root or "")).isprintable():
            raise ValueError("a name has a control character in it")


class _Models(msgspec.Struct, frozen=True):
    data: list[ServedModel]


def clip_name(name: str) -> str:
    """Shortens a server's name for a model, which is printable, for the user."""
    return name[:_MAX_NAME_CHARACTERS]


class RemoteRun:
    """The base class of the runs of jobs on servers."""

    def __init__(self, server: "RemoteBackend", job: Job) -> None:
        """Raises RequestError."""
        if not isinstance(job.request, InfillRequest):
            raise RequestError(CANNOT_JUDGE_MESSAGE)
        self._server = server
        self.job = job
        self.request = job.request
        self._parts = text_and_holes(job.request)
        self.counters = RequestCounters()

    def _done(self) -> Done:
        outcome = Outcome.DEADLINE if self.job.deadline.is_past else Outcome.COMPLETE
        return Done(self.request.id, outcome, self.counters.stats())


class RemoteBackend(ABC):
    """A model on a server (`serving.scheduler.Backend`). Repeats the handshake after a refusal: it may be another."""

    model_setting: ClassVar[str] = "server.model"
    """The setting that chooses one of several models."""
    expected: ClassVar[str]
    """The kind of server that is required, for an error message."""
    handshake_s: ClassVar[float] = 30.0
    """The time limit of the handshake."""
    model = ""
    """The model's name, for the user."""
    context_tokens = 0
    partner = ""
    """The API of a partner, one of `inference.messages.PartnerKind`; empty for other servers."""
    sees_drafts = False
    edits: EditKind | None = None
    """The kind of an edit model."""

    def __init__(self, client: ModelServerClient, arguments: WorkerArguments) -> None:
        """Call `handshake` before anything else."""
        self.client = client
        self.device = client.address.host_and_port
        self._arguments = arguments
        self._handshake: asyncio.Task[None] | None = None
        self._last_handshake_s = -RETRY_AFTER_S

    @abstractmethod
    def replies(self, job: Job) -> AsyncGenerator[JobEvent, None]:
        """The replies to a request. Raises RequestError."""

    @abstractmethod
    async def _probe(self) -> None:
        """Finds out what the server serves, and stores it. Raises ModelError, AnswerError and ServerError."""

    async def handshake(self, limit_s: float) -> None:
        """Finds out within `limit_s` what the server serves now. Raises ModelError."""
        url = self.client.url
        try:
            async with asyncio.timeout(limit_s):
                await self._probe()
        except TimeoutError as error:
            raise ModelError(f"{url} has not answered for {limit_s:g} s; check that it is running") from error
        except AnswerError as error:
            raise ModelError(f"{url} is not {self.expected}: {error}") from error
        except ServerError as error:
            raise ModelError(str(error)) from error

    async def listed_model(self) -> ServedModel:
        """The requested model of the server, or its only one. Raises ModelError, AnswerError and ServerError."""
        url, requested = self.client.url, self._arguments.server_model
        listed = decode_json(await self.client.fetch("/v1/models"), _Models).data
        names = ", ".join(clip_name(model.id) for model in listed[:10]) or "none"
        matches = [model for model in listed if requested is None or model.id == requested]
        if len(matches) == 1:
            return matches[0]
        setting = f"{self.model_setting} or --server-model"
        if matches:
            raise ModelError(f"{url} has several models ({names}); name one with {setting}")
        raise ModelError(f"{url} has no model {requested or ''}; it has {names}; set {setting}")

    def status_fields(self) -> dict[str, Any]:
        names = ("model", "device", "context_tokens", "partner", "sees_drafts", "edits")
        return {name: getattr(self, name) for name in names}

    async def close(self) -> None:
        if self._handshake is not None:
            self._handshake.cancel()
            await asyncio.wait([self._handshake])
        await self.client.close()

    def handshake_later(self) -> None:
        """Repeats the handshake in the background, after the server has refused a request."""
        now_s = time.monotonic()
        if self._last_handshake_s + RETRY_AFTER_S <= now_s:
            self._last_handshake_s = now_s
            self._handshake = asyncio.create_task(self._repeat_handshake(), name="handshake")

    async def _repeat_handshake(self) -> None:
        try:
            await self.handshake(RETRY_AFTER_S)
        except ModelError as error:
            log.warning("the server that refused a request does not say what it serves: %s", error)


_KINDS = {
    MODEL_SERVER: ("inference.remote.vllm", "VllmBackend"),
    PARTNER_SERVER: ("inference.remote.partner.backend", "PartnerBackend"),
    EDIT_MODEL_SERVER: ("inference.remote.edit_model", "EditModelBackend"),
}


async def connect(
    arguments: WorkerArguments, on_progress: OnProgress, *, limit_s: float | None = None
) -> RemoteBackend:
    """Connects to the server on the command line, with the user's token if it may be sent there. Raises ModelError.

    `limit_s` limits the handshake; None: the kind's own limit.
    """
    role = address.setting_names_of(edits=arguments.edits, partner=arguments.partner)
    module, name = _KINDS[role]
    kind: type[RemoteBackend] = getattr(import_module(module), name)  # each needs libraries that others do not
    try:
        server_address = address.parse_server_url(arguments.model, role)
    except address.AddressError as error:
        raise ModelError(str(error)) from error
    if refusal := server_address.sending_problem(plain_http=arguments.plain_http, role=role):
        raise ModelError(refusal)
    on_progress(0.1, f"asking {server_address.host_and_port}")
    client = ModelServerClient(
        server_address, token=server_token.read_token(role=role) if arguments.sends_token else "", role=role
    )
    backend = kind(client, arguments)
    try:
        await backend.handshake(limit_s or kind.handshake_s)
    except BaseException as error:
        await client.close()
        cause = error.__cause__
        if arguments.sends_token or not isinstance(cause, ServerError) or cause.status not in (401, 403):
            raise
        raise ModelError(
            f"{error}. No token is sent there, for a workspace's infill-ls.toml chose this server, or http to it; to "
            f"send yours, set `{role.url}` in your own settings"
        ) from error
    client.on_refused = backend.handshake_later
    return backend

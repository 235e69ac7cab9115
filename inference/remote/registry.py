"""The kinds of model servers: a folder each, and a line here."""

from importlib import import_module
from typing import Protocol

from inference.models.family import OnProgress
from inference.remote import token
from inference.remote.token import TokenPlace
from inference.serving.infiller import RemoteInfiller
from inference.serving.startup import WorkerArguments

_KINDS = {"vllm": ("inference.remote.vllm", token.SERVER), "partner": ("inference.remote.partner", token.PARTNER)}


class ServedKind(Protocol):
    """What a kind's package offers."""

    async def connect(self, arguments: WorkerArguments, on_progress: OnProgress, *, token: str = "") -> RemoteInfiller:
        """Meets the server that `arguments` name. Raises ModelError."""


def place_of(arguments: WorkerArguments) -> TokenPlace:
    """The place of the user's token for this server."""
    return _KINDS[_kind(arguments)][1]


async def connect(arguments: WorkerArguments, on_progress: OnProgress) -> RemoteInfiller:
    """The server on the command line, with the user's token if it may be sent there. Raises ModelError."""
    module, place = _KINDS[_kind(arguments)]
    kind: ServedKind = import_module(module)  # here and not above: each needs libraries that others do not
    return await kind.connect(arguments, on_progress, token=token.read(place=place) if arguments.sends_token else "")


def _kind(arguments: WorkerArguments) -> str:
    return "partner" if arguments.partner else "vllm"

"""The kinds of model servers: a folder each, and a line here."""

from importlib import import_module

from inference.models.family import OnProgress
from inference.remote import token
from inference.remote.address import EDITS, MODEL, PARTNER, ServerRole
from inference.remote.served import ServedInfiller
from inference.serving.startup import WorkerArguments

_KINDS = {
    "vllm": ("inference.remote.vllm", MODEL),
    "partner": ("inference.remote.partner", PARTNER),
    "edits": ("inference.remote.edits", EDITS),
}


def role_of(arguments: WorkerArguments) -> ServerRole:
    """How the user sets up this server."""
    return _KINDS[_kind(arguments)][1]


async def connect(arguments: WorkerArguments, on_progress: OnProgress) -> ServedInfiller:
    """The server on the command line, with the user's token if it may be sent there. Raises ModelError."""
    module, role = _KINDS[_kind(arguments)]
    kind = import_module(module)  # here and not above: each needs libraries that others do not
    secret = token.read(role=role) if arguments.sends_token else ""
    infiller: ServedInfiller = await kind.connect(arguments, on_progress, token=secret)
    return infiller


def _kind(arguments: WorkerArguments) -> str:
    return "edits" if arguments.edits else "partner" if arguments.partner else "vllm"

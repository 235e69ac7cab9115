"""The kinds of model servers: a module each, and a line here."""

from importlib import import_module

from inference.models.family import OnProgress
from inference.remote import served, token
from inference.remote.address import EDITS, MODEL, PARTNER, ServerRole
from inference.remote.served import ServedInfiller
from inference.serving.startup import WorkerArguments

_KINDS = {
    MODEL: ("inference.remote.vllm.infilling", "VllmInfiller"),
    PARTNER: ("inference.remote.partner.filling", "PartnerInfiller"),
    EDITS: ("inference.remote.edits", "ServedEditModel"),
}


def role_of(arguments: WorkerArguments) -> ServerRole:
    """How the user sets up this server."""
    return EDITS if arguments.edits else PARTNER if arguments.partner else MODEL


async def connect(arguments: WorkerArguments, on_progress: OnProgress) -> ServedInfiller:
    """The server on the command line, with the user's token if it may be sent there. Raises ModelError."""
    role = role_of(arguments)
    module, name = _KINDS[role]
    kind: type[ServedInfiller] = getattr(import_module(module), name)  # each needs libraries that others do not
    secret = token.read(role=role) if arguments.sends_token else ""
    return await served.connect(kind, arguments, on_progress, token=secret)

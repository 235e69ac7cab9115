"""The kinds of model servers: a module each, and a line here; and the connection to one."""

import asyncio
from importlib import import_module

from inference.models.family import ModelError, OnProgress
from inference.remote import address, token
from inference.remote.address import EDITS, MODEL, PARTNER, ServerRole
from inference.remote.http import Client, ServerError
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

"""Turns settings into the options that start a worker."""

from inference.messages import WorkerOptions
from inference.models import downloads, edit_prompts
from inference.models.catalogue import AUTO
from lsp_server.settings.schema import OF_WORKER, OFF, PARTNER, Settings


def worker_options(settings: Settings, *, sends_token: bool = True) -> WorkerOptions:
    """The worker of the model. `sends_token`: the user, and not a workspace, chose the server."""
    if settings.model == PARTNER:
        return partner_options(settings, sends_token=sends_token)
    return WorkerOptions(
        **{name: getattr(settings, name) for name in OF_WORKER},
        idle_s=settings.idle_seconds,
        server_model=settings.server.model,
        server_tokenizer=settings.server.tokenizer,
        plain_http=settings.server.plain_http,
        sends_token=sends_token,
    )


def edit_model_options(settings: Settings) -> WorkerOptions | None:
    """The edit model's worker; None if there is no edit model. Only the user can have named its server. For `auto` it
    reads the folders of pulled models.
    """
    wanted = settings.next_edit
    if wanted.model == OFF or (wanted.model == AUTO and not downloads.edit_models(wanted.kind)):
        return None
    return WorkerOptions(
        model=wanted.model,
        device=settings.device,
        dtype=settings.dtype,
        idle_s=settings.idle_seconds,
        plain_http=wanted.plain_http,
        edits=edit_prompts.kind_of(wanted.kind, wanted.model) or wanted.kind,
    )


def partner_options(settings: Settings, *, sends_token: bool = True) -> WorkerOptions:
    """The partner's worker; if none is configured, its `problem_of` says so."""
    partner = settings.partner
    return WorkerOptions(
        model=partner.url or "",
        idle_s=settings.idle_seconds,
        server_model=partner.model,
        plain_http=partner.plain_http,
        sends_token=sends_token,
        partner=partner.kind,
    )

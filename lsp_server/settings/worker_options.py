"""The options that start a worker, from the settings: with absolute paths and one spelling of each URL, since they also
name the worker, and without what means nothing to its model. Says why none can start.
"""

import re
from pathlib import Path

from inference.messages import WorkerOptions
from inference.models import catalogue, discovery, edit_prompts, model_store
from inference.models.catalogue import AUTO
from inference.remote import address
from lsp_server.settings.schema import OFF, PARTNER, WORKER_FIELDS, Settings

_OLLAMAS = re.compile(r"[^./~\\][^\\]*:[^/\\:]+")
"""A name such as `qwen2.5-coder:0.5b`."""


def worker_options(settings: Settings, *, sends_token: bool = True) -> WorkerOptions:
    """The worker of the model. `sends_token`: the user, and not a workspace, chose the server."""
    if settings.model == PARTNER:
        return partner_options(settings, sends_token=sends_token)
    model = canonical_model(settings.model)
    if not address.is_url(model):
        chosen = {name: getattr(settings, name) for name in WORKER_FIELDS}
        return WorkerOptions(**{**chosen, "model": model}, idle_s=settings.idle_seconds)
    server = settings.server
    return WorkerOptions(
        model=model,
        idle_s=settings.idle_seconds,
        server_model=server.model,
        server_tokenizer=canonical_model(server.tokenizer) if server.tokenizer else None,
        plain_http=server.plain_http,
        sends_token=sends_token,
    )


def edit_model_options(settings: Settings) -> WorkerOptions | None:
    """The edit model's worker; None if there is no edit model. Only the user can have named its server. For `auto` it
    reads the folders of pulled models.
    """
    next_edit = settings.next_edit
    if next_edit.model == OFF or (next_edit.model == AUTO and not model_store.pulled_edit_models(next_edit.kind)):
        return None
    is_here = not address.is_url(next_edit.model)
    return WorkerOptions(
        model=canonical_model(next_edit.model),
        device=settings.device if is_here else None,
        dtype=settings.dtype if is_here else None,
        idle_s=settings.idle_seconds,
        plain_http=next_edit.plain_http and not is_here,
        edits=edit_prompts.guess_kind(next_edit.kind, next_edit.model) or next_edit.kind,
    )


def partner_options(settings: Settings, *, sends_token: bool = True) -> WorkerOptions:
    """The partner's worker; if none is configured, its `options_problem` says so."""
    partner = settings.partner
    url = partner.url or ""
    return WorkerOptions(
        model=canonical_model(url) if address.is_url(url) else url,
        idle_s=settings.idle_seconds,
        server_model=partner.model,
        plain_http=partner.plain_http,
        sends_token=sends_token,
        partner=partner.kind,
    )


def is_remote(options: WorkerOptions) -> bool:
    """Whether a server has the model, so that text leaves this process's machine, or may."""
    return options.partner is not None or address.is_url(options.model)


def options_problem(options: WorkerOptions) -> str | None:
    """Why no worker can start with this model, and what to do; None if it can."""
    if options.partner is not None and not address.is_url(options.model):
        cause = f"{options.model[:200]!r} is not a URL" if options.model else "no URL is set"
        return f"partner.url: {cause}; give the URL of a server that you run, such as http://localhost:8080"
    try:
        if is_remote(options):
            role = address.setting_names_of(edits=options.edits, partner=options.partner)
            server = address.parse_server_url(options.model, role)
            return server.sending_problem(plain_http=options.plain_http, role=role)
        _resolve_model(options.model)
    except address.AddressError as error:
        return str(error)
    except (OSError, RuntimeError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        hint = "give a folder, or a name that `infill-ls models` shows"
        return f"model: {options.model[:200]!r} cannot be resolved: {reason}; {hint}"
    return None


def canonical_model(model: str) -> str:
    """The canonical spelling of a model. Unchanged if `options_problem` finds a problem, or if no program on this
    machine has a model of that name yet.
    """
    try:
        return address.parse_server_url(model).url if address.is_url(model) else _resolve_model(model)
    except (OSError, RuntimeError, ValueError):
        return model


def _resolve_model(model: str) -> str:
    """`model` as the catalogue names it, otherwise as an absolute path if it names a folder, a file, or another
    program's model. Raises OSError, RuntimeError or ValueError for an odd name.
    """
    if entry := catalogue.find_entry(model):
        return entry.name
    names_no_folder = catalogue.is_name_or_hub_id(model)
    is_ollamas = bool(_OLLAMAS.fullmatch(model))
    may_be_anothers = names_no_folder and "/" not in model and model != catalogue.AUTO
    if (is_ollamas or may_be_anothers) and (file := discovery.find_foreign_model_file(model)):
        return file
    if is_ollamas:  # and never a file of that name in a checkout
        raise ValueError("Ollama has no model of this name here, and a file is written ./NAME")
    if names_no_folder:
        return model
    path = model_store.real_path(Path(model).expanduser())
    path.is_dir()  # raises if nothing can have this name
    return _pulled_model_at(path) or str(path)


def _pulled_model_at(path: Path) -> str:
    """The model of the catalogue that a pull puts at this path; "" if there is none."""
    for folder in (path, path.parent):
        entry = catalogue.find_entry(folder.name)
        if entry and folder == model_store.pull_target(entry.name).folder.resolve():
            return entry.name if folder == path or (entry.file and entry.file.name == path.name) else ""
    return ""

"""Resolves `WorkerOptions` for this machine: absolute paths, one spelling of each URL, and any problems."""

import re
from pathlib import Path

from msgspec.structs import replace

from inference.messages import WorkerOptions
from inference.models import catalogue, discovery, downloads
from inference.remote import address

_DEFAULTS = WorkerOptions()
_OLLAMAS = re.compile(r"[^./~\\][^\\]*:[^/\\:]+")
"""A name such as `qwen2.5-coder:0.5b`."""
_SERVERS_ALONE = ("server_model", "server_tokenizer", "plain_http", "sends_token", "partner")
"""The options that mean nothing to a local model."""
_LOCALS_ALONE = tuple({*WorkerOptions.__struct_fields__} - {"model", "idle_s", "edits", *_SERVERS_ALONE})


def is_remote(options: WorkerOptions) -> bool:
    """Whether a server has the model, so that text leaves this process's machine, or may."""
    return options.partner is not None or address.is_url(options.model)


def role_of(options: WorkerOptions) -> address.ServerRole:
    """How the user sets up the server of these options, which must be remote."""
    return address.EDITS if options.edits else address.PARTNER if options.partner else address.MODEL


def resolved(options: WorkerOptions) -> WorkerOptions:
    """The same with absolute paths and one spelling of each URL, without options that do not apply to this model."""
    try:
        others = _LOCALS_ALONE if is_remote(options) else _SERVERS_ALONE
        options = replace(options, **{name: getattr(_DEFAULTS, name) for name in others})
        if not is_remote(options):
            return replace(options, model=_resolved_model(options.model))
        tokenizer = options.server_tokenizer and _resolved_model(options.server_tokenizer)
        url = address.parse(options.model).url
        return replace(options, model=url, server_tokenizer=tokenizer or None)
    except (OSError, RuntimeError, ValueError):
        return options


def problem_of(options: WorkerOptions) -> str:
    """Why no worker can start with this model, and what to do; empty if it can."""
    if options.partner is not None and not address.is_url(options.model):
        shown = f"{options.model[:200]!r} is not a URL" if options.model else "no URL is set"
        return f"partner.url: {shown}; give the URL of a server that you run, such as http://localhost:8080"
    try:
        if is_remote(options):
            role = role_of(options)
            return address.parse(options.model, role).why_refused(plain_http=options.plain_http, role=role)
        _resolved_model(options.model)
    except address.AddressError as error:
        return str(error)
    except (OSError, RuntimeError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        what = "give a folder, or a name that `infill-ls models` shows"
        return f"model: {options.model[:200]!r} cannot be resolved: {reason}; {what}"
    return ""


def _resolved_model(model: str) -> str:
    """`model` as the catalogue names it, otherwise as an absolute path if it names a folder, a file, or another
    program's model. Raises OSError, RuntimeError or ValueError for an odd name.
    """
    if entry := catalogue.find(model):
        return entry.name
    names_no_folder = catalogue.names_no_folder(model)
    is_ollamas = bool(_OLLAMAS.fullmatch(model))
    may_be_anothers = names_no_folder and "/" not in model and model != catalogue.AUTO
    if (is_ollamas or may_be_anothers) and (file := discovery.file_of(model)):
        return file
    if is_ollamas:  # and never a file of that name in a checkout
        raise ValueError("Ollama has no model of this name here, and a file is written ./NAME")
    if names_no_folder:
        return model
    path = Path(model).expanduser().resolve()
    path.is_dir()  # raises if nothing can have this name
    return _pulled_to(path) or str(path)


def _pulled_to(path: Path) -> str:
    """The model of the catalogue that a pull puts at this path; "" if there is none."""
    for folder in (path, path.parent):
        entry = catalogue.find(folder.name)
        if entry and folder == downloads.target(entry.name).folder.resolve():
            return entry.name if folder == path or (entry.file and entry.file.name == path.name) else ""
    return ""

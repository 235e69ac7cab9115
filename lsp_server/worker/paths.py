"""Which worker a client wants, and the files by which that worker is found.

The files lie in a private folder; their names are made from the options that choose the worker.
"""

import hashlib
import os
import stat
import tempfile
import warnings
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import platformdirs

import inference.messages
from inference.messages import PROTOCOL_VERSION
from inference.models import catalogue
from inference.models.catalogue import EMBEDDED
from inference.remote import address

APP = "infill-ls"
FOLDER_VARIABLE = "INFILL_LS_RUNTIME_DIR"
MAX_SOCKET_PATH_BYTES = 100
"""Unix allows 104 to 108, less what a folder is prefixed with when it is bound."""


@dataclass(frozen=True)
class WorkerOptions:
    """The model and how to run it. `idle_s` counts when a worker is started; the others choose the worker.

    `model` is a name of the catalogue, a hub id, a folder or the URL of a server. Only there the last four count: the
    name by which it has the model, the folder or hub id of its tokenizer, whether http may leave this machine, and
    whether the user's token goes there.
    None lets the worker choose.
    """

    model: str = EMBEDDED
    device: str | None = None
    dtype: str | None = None
    idle_s: float = 600
    server_model: str | None = None
    server_tokenizer: str | None = None
    plain_http: bool = False
    sends_token: bool = True
    partner: str | None = None
    """How an autoregressive server is asked, of `inference.messages.PARTNER_KINDS`; None: the server is a vLLM."""

    @property
    def is_remote(self) -> bool:
        """Whether a server has the model, and text leaves this process's machine, or may."""
        return self.partner is not None or address.is_url(self.model)

    def resolved(self) -> "WorkerOptions":
        """The same with absolute paths and one way to write a URL, so that it names one worker from wherever asked.

        What does not count for this model is left out. What cannot be resolved stays as it is; `problem` says what is
        wrong with it.
        """
        try:
            if not self.is_remote:
                return WorkerOptions(_resolved_model(self.model), self.device, self.dtype, self.idle_s)
            tokenizer = self.server_tokenizer and _resolved_model(self.server_tokenizer)
            url = address.parse(self.model).url
            return replace(self, model=url, device=None, dtype=None, server_tokenizer=tokenizer or None)
        except (OSError, RuntimeError, ValueError):
            return self

    @property
    def problem(self) -> str:
        """Why no worker can be started with this model, and what to do; empty when nothing speaks against it."""
        if self.is_remote:
            return self._server_problem
        try:
            _resolved_model(self.model)
        except (OSError, RuntimeError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
            what = "give a folder, or a name that `infill-ls models` shows"
            return f"model: {self.model[:200]!r} cannot be resolved: {reason}; {what}"
        return ""

    @property
    def _server_problem(self) -> str:
        if self.partner is not None and not address.is_url(self.model):
            shown = f"{self.model[:200]!r} is no URL" if self.model else "no URL is set"
            return f"partner.url: {shown}; give the URL of a server that you run, such as http://localhost:8080"
        names = address.MODEL if self.partner is None else address.PARTNER
        try:
            return address.parse(self.model, names).why_refused(plain_http=self.plain_http, names=names)
        except address.AddressError as error:
            return str(error)


def _resolved_model(model: str) -> str:
    """`model`, as an absolute path where it names a folder.

    Raises OSError, RuntimeError (a loop of links, an unknown user) or ValueError (a NUL, half a surrogate pair).
    """
    if entry := catalogue.find(model):
        return entry.name
    if catalogue.names_no_folder(model):
        return model
    folder = Path(model).expanduser().resolve()
    folder.is_dir()  # raises where no folder can have this name
    return str(folder)


@dataclass(frozen=True)
class WorkerPaths:
    """The files of one worker. `socket` is what it listens on; with TCP, the file that says where."""

    socket: Path
    log: Path

    @property
    def folder(self) -> Path:
        """The private folder of the sockets."""
        return self.socket.parent

    @property
    def starting(self) -> Path:
        """Locked by the client that is starting this worker."""
        return self.socket.with_suffix(".starting")

    @property
    def errors(self) -> Path:
        """What the worker's process wrote to stderr: why it could not start, or where it crashed."""
        return self.log.with_suffix(".err")


def paths_of(options: WorkerOptions) -> WorkerPaths:
    """The files of the worker of `options`, whether it runs or not. Creates nothing."""
    options = options.resolved()
    key = _hash(PROTOCOL_VERSION, options.model, *_how(options), *_installation(options.model))
    folder = runtime_folder()
    socket = folder / f"{key}.sock"
    return paths_at(socket if _fits(socket) else _short_folder() / f"{_hash(folder, key)}.sock")


def _how(options: WorkerOptions) -> list[object]:
    """What tells apart workers of the same model."""
    if options.is_remote:
        return [
            options.server_model,
            options.server_tokenizer,
            options.plain_http,
            options.sends_token,
            options.partner,
        ]
    return [options.device, options.dtype]


def _installation(model: str) -> list[object]:
    """What the answers of a worker come from: a worker of other code, or with another checkpoint, is another one."""
    code = Path(inference.messages.__file__).resolve().parent
    weights = code / EMBEDDED / "model.safetensors"
    found: list[object] = [version("infill-ls"), code]
    if model == EMBEDDED and weights.is_file():
        about = weights.stat()
        found += [about.st_mtime_ns, about.st_size]
    return found


def paths_at(socket: Path) -> WorkerPaths:
    """The files of the worker that has this socket."""
    return WorkerPaths(socket, log_folder() / f"worker-{socket.stem}.log")


def runtime_folder() -> Path:
    """The folder of the sockets: `INFILL_LS_RUNTIME_DIR`, else the system's runtime folder for this user."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen).expanduser().absolute()
    with warnings.catch_warnings(record=True) as guesses:
        warnings.simplefilter("always")
        folder = platformdirs.user_runtime_path(APP, appauthor=False)
    return _short_folder() if guesses else folder  # platformdirs warns where the system names no such folder


def socket_folders() -> tuple[Path, ...]:
    """Every folder that a socket of this user may be in; a folder that was chosen holds all that belong to it."""
    folder = runtime_folder()
    if os.environ.get(FOLDER_VARIABLE) and _fits(folder / f"{_hash(folder)}.sock"):
        return (folder,)
    return tuple(dict.fromkeys((folder, _short_folder())))


def log_folder() -> Path:
    """The folder of the log files; with `INFILL_LS_RUNTIME_DIR` everything is in that one."""
    if os.environ.get(FOLDER_VARIABLE):
        return runtime_folder()
    return platformdirs.user_log_path(APP, appauthor=False)


def why_not_private(folder: Path, variable: str = FOLDER_VARIABLE) -> str:
    """What is wrong with `folder` as a private one, and what to do; empty when it is fine or not there yet.

    `variable` names the environment variable that chooses another folder.
    """
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot use the folder {folder}: {error.strerror}; set {variable} to a folder of your own"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder of its own (a link or a file); remove it"
    if os.name == "nt":  # the folder lies in the user's profile, which Windows keeps private
        return ""
    if found.st_uid != os.getuid():
        return f"{folder} belongs to another user; set {variable} to a folder of your own"
    if found.st_mode & (stat.S_ISVTX | stat.S_IWOTH):  # such as /tmp, which closed would break other programs
        return f"{folder} is shared with other users; set {variable} to a folder of your own"
    if found.st_mode & 0o077:
        return f"other users can enter {folder}; run: chmod 700 {folder}"
    return ""


def _fits(socket: Path) -> bool:
    return len(os.fsencode(socket)) <= MAX_SOCKET_PATH_BYTES


def _short_folder() -> Path:
    """A short path for where the usual one is too long or missing."""
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"{APP}-{owner}"


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()[:16]

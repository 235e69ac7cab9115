"""Starts a worker: reads its command line, and makes sure that its folder is private."""

import argparse
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inference.messages import PARTNER_KINDS

TRANSPORTS = ("unix", "tcp")
NATIVE_TRANSPORT = "tcp" if os.name == "nt" else "unix"
"""asyncio serves no Unix sockets on Windows."""


@dataclass(frozen=True)
class WorkerArguments:
    """What `python -m inference.worker` was told. `idle_s` is in seconds; `device` and `dtype` None: the best one.

    `model` may be the URL of a server. Then `server_model` is the name that it serves the model by, None: the one that
    it lists; `server_tokenizer` a folder or hub id, None: what the server says; `plain_http` True allows http to it,
    and `no_token` True keeps the token from it. `partner` is how an autoregressive server is asked, one of
    `PARTNER_KINDS`; None: the server is a vLLM that holds pins.
    """

    socket: Path
    model: str
    device: str | None
    dtype: str | None
    idle_s: float
    transport: str
    log: Path
    foreground: bool
    server_model: str | None = None
    server_tokenizer: str | None = None
    plain_http: bool = False
    no_token: bool = False
    partner: str | None = None


class NotPrivateError(Exception):
    """Other users can reach the worker's folder; str() says what to do about it."""


def parse(argv: Sequence[str] | None = None) -> WorkerArguments:
    """The worker's arguments from its command line. Raises SystemExit, as argparse does, when they are wrong."""
    values = _parser().parse_args(argv)
    path = Path(values.socket).absolute()
    return WorkerArguments(
        socket=path,
        model=values.model,
        device=values.device,
        dtype=values.dtype,
        idle_s=values.idle_s,
        transport=values.transport,
        log=Path(values.log).absolute() if values.log else path.with_suffix(".log"),
        foreground=values.foreground,
        server_model=values.server_model,
        server_tokenizer=values.server_tokenizer,
        plain_http=values.plain_http,
        no_token=values.no_token,
        partner=values.partner,
    )


def require_private_folder(folder: Path) -> None:
    """Create `folder` (0700) if it is missing. Raises NotPrivateError when others own it or may enter it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise NotPrivateError(
            f"cannot use the folder {folder}: {error.strerror}; remove what is in its place"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotPrivateError(f"{folder} is not a folder of its own (a link or a file); remove it")
    if os.name == "nt":  # the folder is in the user's profile, which Windows keeps private
        return
    if found.st_uid != os.getuid():
        raise NotPrivateError(f"{folder} belongs to another user; set INFILL_LS_RUNTIME_DIR to a folder of your own")
    if found.st_mode & (stat.S_ISVTX | stat.S_IWOTH):  # such as /tmp: closing it would break other programs
        raise NotPrivateError(f"{folder} is shared with other users; set INFILL_LS_RUNTIME_DIR to a folder of your own")
    if found.st_mode & 0o077:
        raise NotPrivateError(f"other users can enter {folder}; run: chmod 700 {folder}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inference.worker", description="The resident worker of infill-ls.")
    parser.add_argument("--socket", required=True, help="where to listen; with tcp, the file that says where")
    parser.add_argument(
        "--model", default="embedded", help="a name, hub id, folder, or a server's URL; the embedded one by default"
    )
    parser.add_argument("--device", help="cpu, cuda, mps, mlx; the best one found by default")
    parser.add_argument("--dtype", help="bfloat16, float16, float32, 8bit, 4bit; the best that fits by default")
    parser.add_argument("--server-model", help="the name by which a server has the model; the one it lists by default")
    parser.add_argument("--server-tokenizer", help="folder or hub id of its tokenizer; what the server says by default")
    parser.add_argument("--plain-http", action="store_true", help="allow http to a server that is not this machine")
    parser.add_argument("--no-token", action="store_true", help="send the server no token: the user did not choose it")
    parser.add_argument("--partner", choices=PARTNER_KINDS, help="the server is autoregressive, and asked in this way")
    parser.add_argument("--idle-s", type=float, default=600.0, help="seconds without clients after which it exits")
    parser.add_argument("--transport", choices=TRANSPORTS, default=NATIVE_TRANSPORT)
    parser.add_argument("--log", help="log file; beside the socket by default")
    parser.add_argument("--foreground", action="store_true", help="write the log to the terminal as well")
    return parser

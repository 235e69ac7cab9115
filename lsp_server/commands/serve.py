"""`infill-ls serve`: runs the language server over stdio, or the endpoint for plugins over HTTP."""

import argparse
import asyncio
import errno
import ipaddress
import logging
import os
import socket
import sys
import threading
from dataclasses import dataclass
from importlib.util import find_spec

from inference.models.family import ModelError
from inference.remote import server_token
from inference.remote.access import AccessControl
from inference.remote.address import OWN_ENDPOINT
from inference.terminal import PrintableLogFormatter, print_message
from lsp_server.commands.arguments import (
    add_model_arguments,
    add_trust_workspace_argument,
    settings_from_flags,
    settings_without_folder,
)
from lsp_server.lsp import transports
from lsp_server.lsp.transports import StartConversation
from lsp_server.server import InfillServer
from lsp_server.settings.worker_options import edit_model_options, worker_options
from lsp_server.worker import WorkerClient

EXIT_USAGE = 2
MAX_SHUTDOWN_S = 4.0
"""The process ends this long after the client of stdio has gone, even if something hangs."""
_TRIES = 20
_NOT_ENCRYPTED = "WARNING: {} is not encrypted: use a tunnel, since anyone on the way can read your code and the token"
_ANY_USER = "WARNING: anyone who can reach {} can use this server and its models: there is no password"
_UNWRITABLE = "the token for other users' clients cannot be written to {}: {}; only your own programs are let in"
_PORT_TAKEN = "WARNING: [::1]:{} belongs to another program, which a client that connects to localhost may reach"
_ON_A_TERMINAL = """\
infill-ls serve is a language server: it waits here for an editor to speak LSP on standard input.
You need not start it yourself: set up your editor to run this command (see the README).
To fill the holes (???) of a file from a terminal: infill-ls fill FILE
To end it: Ctrl-D or Ctrl-C"""
_LEVELS = ("debug", "info", "warning", "error")
"""Warnings only by default: editors show stderr output as an error."""


@dataclass(frozen=True)
class ListenAddress:
    """A host, by name or number, and a port; 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def resolved(self) -> "ListenAddress":
        """The same with the host as a number. Raises OSError for an unknown host."""
        addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ipv4_first = sorted(addresses, key=lambda entry: entry[0] is not socket.AF_INET)
        return ListenAddress(str(ipv4_first[0][4][0]), self.port)

    def listen(self) -> socket.socket:
        """A socket that listens here; the address must be resolved. Raises OSError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, self.port), family=family)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; the address must be resolved."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback


def parse_listen_address(text: str) -> ListenAddress:
    """An address from the command line; loopback without a host. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:6]) <= 65535):
        raise argparse.ArgumentTypeError(f"'{text}' is not [HOST:]PORT with a port from 0 to 65535, 0 for any free one")
    return ListenAddress(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--stdio", action="store_true", help="talk over standard input and output (the default)")
    mode.add_argument(
        "--http",
        type=parse_listen_address,
        metavar="[HOST:]PORT",
        help="no language server, but llama.cpp's /infill and OpenAI's /v1/completions for other plugins; port 0 picks "
        "a free port",
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="let other machines and containers connect, too, which send the token that is then printed",
    )
    parser.add_argument(
        "--any-user", action="store_true", help="let others in without the token: other users, or other machines"
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="let web pages of this origin use --http",
    )
    add_model_arguments(parser)
    add_trust_workspace_argument(parser)
    parser.add_argument(
        "--log-level", default="warning", choices=_LEVELS, help="level of the log on stderr (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Serves until the client of stdio leaves, or until SIGTERM. Returns the exit status: 2 if it cannot listen."""
    _log_to_stderr(args.log_level)
    flags = settings_from_flags(args)
    host_port: ListenAddress | None = args.http
    if host_port is None:
        if sys.stdin is not None and sys.stdin.isatty():  # continue: an editor may use a pty
            print(_ON_A_TERMINAL, file=sys.stderr, flush=True)
        return asyncio.run(_serve_stdio(lambda write: InfillServer(flags, write).protocol))
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        return _fail(f"--http needs {' and '.join(missing)}; install them with: pip install 'infill-ls[http]'")
    try:
        bound = host_port.resolved()
        if not bound.is_loopback and not args.allow_remote:
            return _fail(f"{host_port} is reachable from other machines; add --allow-remote to allow that")
        secret = _token(is_needed=args.allow_remote and not args.any_user)
        sockets = _bind(bound)
    except ModelError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"cannot listen at {host_port}: {os.strerror(error.errno or 0)}; choose another port or host")
    asyncio.run(_serve_http(args, sockets, secret))
    return 0


def _token(*, is_needed: bool) -> str:
    """The token for clients that are not certainly the user's. Raises ModelError."""
    try:
        return server_token.read_or_create_token(OWN_ENDPOINT)
    except OSError as error:
        problem = _UNWRITABLE.format(server_token.token_file(OWN_ENDPOINT), error.strerror)
        if is_needed:
            raise ModelError(f"{problem}; put one into {OWN_ENDPOINT.token_variable}") from error
        logging.getLogger(__name__).info(problem)
        return ""


def _bind(address: ListenAddress) -> list[socket.socket]:
    """The sockets at an address. At 127.0.0.1 also one at ::1, since `localhost` may mean either. Raises OSError."""
    for _ in range(_TRIES):
        first = address.listen()
        if address.host != "127.0.0.1":
            break
        port = first.getsockname()[1]
        try:
            return [first, ListenAddress("::1", port).listen()]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:  # this machine has no IPv6
                break
            if address.port != 0:
                print_message(_PORT_TAKEN.format(port), "infill-ls serve")
                break
            first.close()
    return [first]


def _announce(args: argparse.Namespace, host_port: ListenAddress, secret: str) -> None:
    """Prints where the server listens, and how clients get in that are not certainly the user's."""
    if not host_port.is_loopback:
        print_message(_NOT_ENCRYPTED.format(host_port), "infill-ls serve")
    if args.any_user:
        print_message(_ANY_USER.format(host_port), "infill-ls serve")
    print(f"infill-ls listens at http://{host_port}", flush=True)
    if args.allow_remote:
        variable = OWN_ENDPOINT.token_variable
        token = f"${variable}" if server_token.token_source(role=OWN_ENDPOINT) == variable else secret
        print("A client of another user, machine or container sends this token:")
        print(f"Authorization: Bearer {token}", flush=True)


async def _serve_stdio(start: StartConversation) -> int:
    client, bodies = transports.connect_stdio(start)
    await client.relay_messages(bodies)
    status = client.conversation.exit_status
    watchdog = threading.Timer(MAX_SHUTDOWN_S, os._exit, [status])
    watchdog.daemon = True
    watchdog.start()
    await client.leave()
    return status


async def _serve_http(args: argparse.Namespace, sockets: list[socket.socket], secret: str) -> None:
    from lsp_server.http import app  # not above: it needs an extra, and editors start faster without

    settings = settings_without_folder(args)
    host_port = ListenAddress(*sockets[0].getsockname()[:2])
    is_compulsory = server_token.token_source(role=OWN_ENDPOINT) == OWN_ENDPOINT.token_variable
    access = AccessControl(secret, is_compulsory=is_compulsory, any_user=args.any_user)
    hosts = {"localhost", "127.0.0.1", "::1", args.http.host.lower(), host_port.host}
    name, edit_options = "infill-ls serve --http", edit_model_options(settings)
    client = WorkerClient(worker_options(settings), name=name)
    edit_model = WorkerClient(edit_options, name=name) if edit_options else None
    middleware = app.access_middleware(access=access, hosts=hosts, origins=args.allow_origin)
    _announce(args, host_port, secret)
    await app.serve(app.CompletionEndpoints(client, settings, edit_model).app(middleware), sockets, access)


def _fail(reason: str) -> int:
    print_message(reason, "infill-ls serve")
    return EXIT_USAGE


def _log_to_stderr(level: str) -> None:
    """Our own log. The libraries' are silenced: they would write whole messages, including document text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableLogFormatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("lsp_server")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    for library in ("pygls", "uvicorn"):
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)

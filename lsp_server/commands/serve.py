"""`infill-ls serve`: runs the language server over stdio, TCP or WebSocket, or the endpoint for plugins over HTTP."""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec

from inference.models.family import ModelError
from inference.models.printable import LogFormatter, say
from inference.remote import token
from inference.remote.address import ENDPOINT
from lsp_server.commands.arguments import add_model_arguments, add_trust_argument, given_settings, settings_of
from lsp_server.lsp import transports
from lsp_server.lsp.dispatch import InfillProtocol
from lsp_server.lsp.transports import ListenAddress, StartConversation, Write
from lsp_server.server import InfillServer
from lsp_server.settings.launch import worker_options
from lsp_server.worker import WorkerClient

EXIT_USAGE = 2
EXIT_LIMIT_S = 4.0
"""The process ends this long after the client of stdio has gone, even if something hangs."""
_WARNING = (
    "infill-ls serve: WARNING: anyone who can reach {} can use this server as you: there is no password and no "
    "encryption"
)
_ON_A_TERMINAL = """\
infill-ls serve is a language server: it waits here for an editor to speak LSP on standard input.
You need not start it yourself: set up your editor to run this command (see the README).
To fill the holes (???) of a file from a terminal: infill-ls fill FILE
To end it: Ctrl-D or Ctrl-C"""
_LEVELS = ("debug", "info", "warning", "error")
"""Warnings only by default: editors show stderr output as an error."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stdio", action="store_true", help="talk over standard input and output (the default)")
    plugins = "no language server, but llama.cpp's /infill and OpenAI's /v1/completions for other plugins"
    for flag, what in (
        ("--tcp", "listen for clients over TCP; port 0 picks a free port"),
        ("--ws", "listen for clients over WebSocket"),
        ("--http", plugins),
    ):
        how.add_argument(flag, type=transports.parse_address, metavar="[HOST:]PORT", help=what)
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help=f"let other machines connect, too; --http then needs a token in {ENDPOINT.token_variable}",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="let web pages of this origin use --ws or --http",
    )
    add_model_arguments(parser)
    add_trust_argument(parser)
    parser.add_argument(
        "--log-level", default="warning", choices=_LEVELS, help="level of the log on stderr (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Serves until the client of stdio leaves, or until SIGTERM. Returns the exit status: 2 if it cannot listen."""
    _log_to_stderr(args.log_level)
    flags = given_settings(args)
    wanted: ListenAddress | None = args.tcp or args.ws or args.http

    def start(write: Write) -> InfillProtocol:
        return InfillServer(flags, write).protocol

    if wanted is None:
        if sys.stdin is not None and sys.stdin.isatty():  # continue: an editor may use a pty
            print(_ON_A_TERMINAL, file=sys.stderr, flush=True)
        return asyncio.run(_serve_stdio(start))
    missing = [name for name in ("starlette", "uvicorn") if args.http and find_spec(name) is None]
    if missing:
        return _refuse(f"--http needs {' and '.join(missing)}; install them with: pip install 'infill-ls[http]'")
    try:
        secret = token.read(role=ENDPOINT) if args.http else ""
        bound = wanted.resolved()
        if not bound.is_loopback and not (args.allow_remote and (secret or not args.http)):
            file = f" and set a token in {ENDPOINT.token_variable} or in {token.token_file(ENDPOINT)}"
            wish = f"add --allow-remote{file if args.http else ''} to allow that"
            return _refuse(f"{wanted} is reachable from other machines; {wish}")
        listening = bound.listen()
    except ModelError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"cannot listen at {wanted}: {os.strerror(error.errno or 0)}; choose another port or host")
    asyncio.run(_serve_http(args, listening, secret) if args.http else _listen(args, listening, start))
    return 0


async def _serve_stdio(start: StartConversation) -> int:
    client, bodies = transports.stdio(start)
    await client.listen(bodies)
    status = client.conversation.exit_status
    _exit_within(EXIT_LIMIT_S, status)
    await client.leave()
    return status


async def _listen(args: argparse.Namespace, listening: socket.socket, start: StartConversation) -> None:
    if args.tcp:
        listener = await transports.listen_tcp(listening, start)
    else:
        listener = await transports.listen_websocket(listening, start, args.allow_origin)
    at = ListenAddress(*listening.getsockname()[:2])
    if not at.is_loopback:
        print(_WARNING.format(at), file=sys.stderr)
    print(f"infill-ls listens at {'tcp' if args.tcp else 'ws'}://{at}", flush=True)
    await _told_to_end()
    await listener.close()


async def _serve_http(args: argparse.Namespace, listening: socket.socket, secret: str) -> None:
    from lsp_server.http import app  # not above: it needs an extra, and editors start faster without

    settings = settings_of(args)
    at = ListenAddress(*listening.getsockname()[:2])
    # with a token any host name will do: a page whose name is rebound to this machine does not know it
    hosts = () if args.allow_remote and secret else {"localhost", "127.0.0.1", "::1", args.http.host, at.host}
    client = WorkerClient(worker_options(settings), name="infill-ls serve --http")
    middleware = app.middleware(token=secret, hosts=hosts, origins=args.allow_origin)
    print(f"infill-ls listens at http://{at}", flush=True)
    await app.serve(app.Endpoint(client, settings).app(middleware), listening)


def _refuse(why: str) -> int:
    say(why, "infill-ls serve")
    return EXIT_USAGE


async def _told_to_end() -> None:
    """Waits for SIGTERM; Ctrl-C raises KeyboardInterrupt by itself."""
    end = asyncio.Event()
    with suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()


def _exit_within(seconds: float, status: int) -> None:
    watchdog = threading.Timer(seconds, os._exit, [status])
    watchdog.daemon = True
    watchdog.start()


def _log_to_stderr(level: str) -> None:
    """Our own log. The libraries' are silenced: they would write whole messages, including document text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    ours = logging.getLogger("lsp_server")
    ours.addHandler(handler)
    ours.setLevel(level.upper())
    ours.propagate = False
    for library in ("pygls", "websockets", "uvicorn"):
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)

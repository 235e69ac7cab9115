"""The language server: every method and its handler, and `infill-ls serve`, which runs them over stdio."""

import argparse
import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lsp_server import status as statuses
from lsp_server.handlers.code_action import code_action
from lsp_server.handlers.code_action_resolve import code_action_resolve
from lsp_server.handlers.did_change import did_change
from lsp_server.handlers.did_change_configuration import did_change_configuration
from lsp_server.handlers.did_close import did_close
from lsp_server.handlers.did_open import did_open
from lsp_server.handlers.initialize import initialize
from lsp_server.handlers.initialized import initialized
from lsp_server.handlers.inline_completion import inline_completion
from lsp_server.handlers.shutdown import leave, shutdown
from lsp_server.handlers.status import status
from lsp_server.protocol import InfillProtocol, Phase
from lsp_server.session import Session
from lsp_server.stdio import Output, read_in_thread, take_stdin, take_stdout

HANDLERS: dict[str, Callable[[Session, Any], Any]] = {
    types.INITIALIZE: initialize,
    types.INITIALIZED: initialized,
    types.TEXT_DOCUMENT_DID_OPEN: did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: did_change,
    types.TEXT_DOCUMENT_DID_CLOSE: did_close,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: did_change_configuration,
    types.TEXT_DOCUMENT_INLINE_COMPLETION: inline_completion,
    types.TEXT_DOCUMENT_CODE_ACTION: code_action,
    types.CODE_ACTION_RESOLVE: code_action_resolve,
    statuses.METHOD: status,
}
_LEVELS = ("debug", "info", "warning", "error")
"""Warnings alone by default: editors show what is written to stderr as an error."""
EXIT_LIMIT_S = 4.0
"""The process is gone this long after the client has, whatever may hang."""

log = logging.getLogger(__name__)


class InfillServer(LanguageServer):
    """A language server whose methods are `HANDLERS`, for one client."""

    protocol: InfillProtocol

    def __init__(self, flags: Mapping[str, Any]) -> None:
        super().__init__("infill-ls", version("infill-ls"), protocol_cls=InfillProtocol)
        self.session = Session(self, flags)
        self.ended = asyncio.Event()
        for method, handler in HANDLERS.items():
            self.feature(method)(partial(handler, self.session))
        self.feature(types.SHUTDOWN)(lambda _: shutdown(self.session, self.protocol))
        self.feature(types.EXIT)(lambda _: self.ended.set())
        self.protocol.on_unreadable = self._forget

    def _forget(self, method: str, params: Any) -> None:
        """After an edit that could not be read, our text is not the editor's: never fill that document again."""
        try:
            self.session.forget(params["textDocument"]["uri"])
        except (TypeError, KeyError):
            log.warning("a %s that could not be read was ignored", method)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `infill-ls serve`."""
    parser.add_argument("--stdio", action="store_true", help="talk over standard input and output (the default)")
    parser.add_argument("--model", metavar="ID_OR_FOLDER", help="hub id or folder of the checkpoint")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda or mps; the best one found by default")
    parser.add_argument("--dtype", metavar="NAME", help="bfloat16, float16 or float32; by default what suits")
    parser.add_argument("--allow-download", action="store_true", default=None, help="download the model if need be")
    parser.add_argument("--log-level", default="warning", choices=_LEVELS, help="to stderr (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Serve one client over stdio until it says exit or goes away. Returns the exit status: 0 after `shutdown`."""
    _log_to_stderr(args.log_level)
    given = {"model": args.model, "device": args.device, "dtype": args.dtype, "allowDownload": args.allow_download}
    flags = {name: value for name, value in given.items() if value is not None}
    return asyncio.run(_serve(flags))


async def _serve(flags: Mapping[str, Any]) -> int:
    server = InfillServer(flags)
    server.protocol.set_writer(Output(take_stdout(), on_lost=server.ended.set))
    read_in_thread(take_stdin(), server.protocol.receive, on_end=server.ended.set)
    await server.ended.wait()
    status = 0 if server.protocol.phase is Phase.SHUT_DOWN else 1
    _exit_within(EXIT_LIMIT_S, status)
    await leave(server.session)
    return status


def _exit_within(seconds: float, status: int) -> None:
    watchdog = threading.Timer(seconds, os._exit, [status])
    watchdog.daemon = True
    watchdog.start()


def _log_to_stderr(level: str) -> None:
    """Our own log. pygls' is silenced: it would write whole messages, and with them the text of documents."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    ours = logging.getLogger("lsp_server")
    ours.addHandler(handler)
    ours.setLevel(level.upper())
    ours.propagate = False
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)

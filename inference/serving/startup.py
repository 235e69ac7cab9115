"""A worker's command line."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from inference.messages import WorkerOptions

NATIVE_TRANSPORT: Literal["unix", "tcp"] = "tcp" if os.name == "nt" else "unix"
"""asyncio serves no Unix sockets on Windows."""


class WorkerArguments(WorkerOptions, frozen=True, kw_only=True):
    """The arguments of `python -m inference.worker`: the client's options, and where to listen and write."""

    socket: Path
    log: Path
    transport: Literal["unix", "tcp"] = NATIVE_TRANSPORT
    foreground: bool = False

    def socket_of(self, model: str) -> Path | None:
        """The socket of the worker of the same options with `model` named; None if ours is not named by its options."""
        named = msgspec.structs.replace(self, model=model).key
        return self.socket.with_name(f"{named}.sock") if self.socket.stem == self.key else None


def parse(argv: Sequence[str] | None = None) -> WorkerArguments:
    """The worker's arguments from its command line. Raises SystemExit, as argparse does, if they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m inference.worker", description="The resident worker of infill-ls.")
    parser.add_argument("--socket", required=True, help="where to listen; with tcp, the file that says where")
    parser.add_argument("--log", help="log file; beside the socket by default")
    parser.add_argument("--transport", default=NATIVE_TRANSPORT, help="unix or tcp")
    parser.add_argument("--foreground", action="store_true", help="write the log to the terminal as well")
    for field in msgspec.structs.fields(WorkerOptions):  # which says what each means
        flag = "--" + field.name.replace("_", "-")
        if field.type is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(flag, default=field.default)
    values = vars(parser.parse_args(argv))
    values["socket"] = Path(values["socket"]).absolute()
    values["log"] = Path(values["log"]).absolute() if values["log"] else values["socket"].with_suffix(".log")
    try:
        return msgspec.convert(values, WorkerArguments, strict=False)
    except msgspec.ValidationError as error:
        parser.error(str(error))

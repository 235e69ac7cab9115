"""How a worker is started: its command line as one frozen value."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TRANSPORTS = ("unix", "tcp")
NATIVE_TRANSPORT = "tcp" if os.name == "nt" else "unix"
"""asyncio serves no Unix sockets on Windows."""


@dataclass(frozen=True)
class WorkerArguments:
    """What `python -m inference.worker` was told. `idle_s` is in seconds."""

    socket: Path
    model: str
    device: str | None
    dtype: str | None
    idle_s: float
    allow_download: bool
    transport: str
    log: Path
    foreground: bool

    @property
    def lock(self) -> Path:
        """Locked by the worker for as long as it lives, so that a socket never has two."""
        return self.socket.with_suffix(".lock")


def parse(argv: Sequence[str] | None = None) -> WorkerArguments:
    """The worker's arguments from its command line. Raises SystemExit, as argparse does, when they are wrong."""
    values = _parser().parse_args(argv)
    socket = Path(values.socket).absolute()
    return WorkerArguments(
        socket=socket,
        model=values.model,
        device=values.device,
        dtype=values.dtype,
        idle_s=values.idle_s,
        allow_download=values.allow_download,
        transport=values.transport,
        log=Path(values.log).absolute() if values.log else socket.with_suffix(".log"),
        foreground=values.foreground,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inference.worker", description="The resident worker of infill-ls.")
    parser.add_argument("--socket", required=True, help="where to listen; with tcp, the file that says where")
    parser.add_argument("--model", default="embedded", help="hub id or folder; the embedded checkpoint by default")
    parser.add_argument("--device", help="cpu, cuda, mps; the best one found by default")
    parser.add_argument("--dtype", help="bfloat16, float16, float32; what suits the device by default")
    parser.add_argument("--idle-s", type=float, default=600.0, help="seconds without clients after which it exits")
    parser.add_argument("--allow-download", action="store_true", help="let the model be downloaded when it is missing")
    parser.add_argument("--transport", choices=TRANSPORTS, default=NATIVE_TRANSPORT)
    parser.add_argument("--log", help="log file; beside the socket by default")
    parser.add_argument("--foreground", action="store_true", help="write the log to the terminal as well")
    return parser

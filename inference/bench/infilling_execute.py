"""Runs partly model-written programs: each in a separate process, with limits, and only on request.

The limits keep accidents small: processor and wall time, memory, file size, an empty working folder, an almost empty
environment and, where Linux allows it, no network. They are not a sandbox: the program runs as this user and can read
this user's files. Run benchmarks you do not trust in a container or a virtual machine.
"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inference.bench.infilling_tasks import InfillingTask

WARNING = (
    "warning: --execute runs code that a model wrote, as you, on this machine. Time and memory are limited and "
    "{network}, but it can read your files: use a container or a virtual machine for what you do not trust."
)

_BOOTSTRAP = """
import resource, sys
file, word, cpu_s, memory_bytes, file_bytes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
for what, limit in (("CPU", cpu_s), ("AS", memory_bytes), ("FSIZE", file_bytes), ("CORE", 0), ("NPROC", 64)):
    try:
        resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (limit, limit))
    except (ValueError, OSError):
        pass
sys.argv = [file]
with open(file, encoding="utf-8") as opened:
    program = compile(opened.read(), file, "exec")
exec(program, {"__name__": "__main__"})
print(f"\\n{word}")
"""
"""Prints a secret word only after the program has run to its end: an early exit does not pass."""


@dataclass(frozen=True)
class ProgramLimits:
    """The resource limits of one program."""

    wall_s: float = 10.0
    memory_bytes: int = 1 << 30
    file_bytes: int = 1 << 20


def program(task: InfillingTask, completion: str) -> str:
    """The whole program of a task, assembled as the HumanEval-Infilling harness does."""
    return f"{task.prompt}{completion}{task.suffix}\n{task.test}\ncheck({task.entry_point})\n"


def passes(source: str, limits: ProgramLimits = ProgramLimits()) -> bool:
    """Whether a program runs to its end without an error and within the limits. Raises OSError off POSIX."""
    if os.name != "posix":
        raise OSError("programs are run only on Linux and macOS, where they can be limited")
    word = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="infill-ls-") as folder:
        file, output = Path(folder) / "program.py", Path(folder) / "output"
        file.write_text(source, "utf-8")
        numbers = [int(limits.wall_s) + 1, limits.memory_bytes, limits.file_bytes]
        command = [*_without_network(), sys.executable, "-I", "-c", _BOOTSTRAP, str(file), word, *map(str, numbers)]
        with output.open("wb") as sink:
            ended = _run(command, folder, sink.fileno(), limits.wall_s)
        return ended == 0 and output.read_bytes().endswith(f"\n{word}\n".encode())


def warning() -> str:
    """The warning to the user before running anything."""
    return WARNING.format(network="it has no network" if _without_network() else "the network CANNOT be cut off here")


def _run(command: list[str], folder: str, output: int, wall_s: float) -> int | None:
    """Runs a command, then kills whatever it started. Returns its exit status, or None if time ran out."""
    environment = {"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(wall_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@cache
def _without_network() -> tuple[str, ...]:
    """The command prefix for a separate network namespace; empty if this machine cannot do that."""
    command = ("unshare", "--user", "--map-root-user", "--net", "--")
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return command if tried.returncode == 0 else ()

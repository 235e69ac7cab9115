"""Finds worker processes by their command lines, even when a worker does not answer; runs children of this one."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from pathlib import Path

import psutil

from lsp_server.worker.paths import WorkerPaths

_LONGEST_LINE_BYTES = 1 << 22


def child_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as a child of this process and ends with it, even if it is killed."""
    # -P: the current folder may hold modules of the same name, and is not to be trusted
    return [sys.executable, "-P", "-m", "inference.serving.child", str(os.getpid()), module, *arguments]


async def run_child(on_line: Callable[[bytes], None], module: str, *arguments: str) -> tuple[int, str]:
    """Runs a module as a child of this process, and passes on each line that it prints. Returns its exit status and
    what it wrote to stderr. Cancelling this ends the child. Raises OSError.
    """
    command = child_command(module, *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, limit=_LONGEST_LINE_BYTES
    )
    assert process.stdout and process.stderr
    errors = asyncio.create_task(process.stderr.read())
    try:
        async for line in process.stdout:
            on_line(line)
        return await process.wait(), (await errors).decode(errors="replace").strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def worker_processes() -> dict[Path, list[int]]:
    """Every worker's process by its socket, oldest first. Takes some milliseconds."""
    found: dict[Path, list[tuple[float, int]]] = {}
    for process in psutil.process_iter(["cmdline", "create_time"]):
        words = process.info["cmdline"] or ()
        if "inference.worker" in words and "--socket" in words[:-1]:
            socket = Path(words[words.index("--socket") + 1])
            found.setdefault(socket, []).append((process.info["create_time"] or 0.0, process.pid))
    return {socket: [pid for _, pid in sorted(processes)] for socket, processes in found.items()}


def pid_of(paths: WorkerPaths) -> int | None:
    """The oldest process started as the worker of `paths`, which may lead to another's; None if there is none."""
    found = worker_processes()
    pids = found.get(paths.socket) or found.get(paths.socket.resolve()) or []
    return pids[0] if pids else None


def is_stopped(pid: int | None) -> bool:
    """Whether the process exists but is stopped, as by SIGSTOP, Ctrl-Z or a debugger: it will not resume by itself."""
    try:
        return pid is not None and psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False

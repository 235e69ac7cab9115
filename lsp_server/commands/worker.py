"""`infill-ls worker`: the resident worker by hand, in the foreground or as a request would start it."""

import argparse
import asyncio
import os
import subprocess
import sys

from inference.messages import Status, WorkerState
from lsp_server.commands.fill import add_model_arguments
from lsp_server.commands.status import describe
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions
from lsp_server.worker.paths import place_of
from lsp_server.worker.spawn import command, require_folders

NAME = "infill-ls worker"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model_arguments(parser)
    parser.add_argument("--idle-s", type=float, default=600.0, metavar="S", help="end after so long without clients")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--foreground", action="store_true", help="run it here until Ctrl-C (the default)")
    how.add_argument("--background", action="store_true", help="start it if none runs and wait for its model")
    how.add_argument("--stop", action="store_true", help="let the running one finish what it does and end")


def run(args: argparse.Namespace) -> int:
    """Runs, starts or stops the worker. Exit status 1 where that failed."""
    options = options_of(args)
    try:
        if args.stop:
            return asyncio.run(_stop(options))
        return asyncio.run(_start(options)) if args.background else _run_here(options)
    except WorkerFailure as failure:
        print(f"infill-ls worker: {failure}", file=sys.stderr)
        return 1


def options_of(args: argparse.Namespace) -> WorkerOptions:
    """The worker that a command line names."""
    idle_s = getattr(args, "idle_s", WorkerOptions.idle_s)
    return WorkerOptions(args.model, args.device, args.dtype, idle_s, args.allow_download)


def _run_here(options: WorkerOptions) -> int:
    place = place_of(options)
    require_folders(place)
    words = [*command(place, options), "--foreground"]
    if os.name != "nt":
        os.execv(words[0], words)  # noqa: S606 - signals and the exit status are then the worker's own
    return subprocess.run(words, check=False).returncode


async def _start(options: WorkerOptions) -> int:
    loaded = asyncio.Event()

    def watch(status: Status) -> None:
        if status.state is not WorkerState.LOADING:
            loaded.set()

    async with WorkerClient(options, name=NAME, on_status=watch) as client:
        await client.status(start=True)
        await loaded.wait()
        status = await client.status(start=True)  # raises where the model could not be loaded
        print(describe(status) if status else "")
        return 0


async def _stop(options: WorkerOptions) -> int:
    async with WorkerClient(options, name=NAME) as client:
        print("stopped" if await client.shut_down() else "no such worker is running")
        return 0

"""`infill-ls worker`: starts or stops the resident worker by hand."""

import argparse
import asyncio

from inference.messages import ErrorCode
from inference.terminal import print_message, printable
from lsp_server.commands.arguments import add_model_arguments, settings_without_folder
from lsp_server.commands.output import progress_printer
from lsp_server.diagnosis.workers import describe_loading, describe_status
from lsp_server.settings.worker_options import worker_options
from lsp_server.worker import WorkerClient, WorkerError, WorkerOptions
from lsp_server.worker.paths import paths_of

COMMAND = "infill-ls worker"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    idle = "exit after this many seconds without clients (default: the setting, otherwise 600)"
    parser.add_argument("--idle-s", dest="idleSeconds", type=float, metavar="S", help=idle)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--where", action="store_true", help="print the path of its socket, even if it is not running")
    action.add_argument("--stop", action="store_true", help="stop the running worker once it has finished its work")
    parser.add_argument("--force", action="store_true", help="with --stop: also if an editor uses it")


def run(args: argparse.Namespace) -> int:
    """Starts the worker if needed and waits for its model, or stops it. Exit status 1 if that failed."""
    options = worker_options(settings_without_folder(args))
    if args.where:
        print(printable(paths_of(options).socket))
        return 0
    try:
        if args.stop:
            return asyncio.run(_stop(options, force=args.force))
        return asyncio.run(_start(options))
    except WorkerError as failure:
        print_message(failure, COMMAND)
        return 1


async def _start(options: WorkerOptions) -> int:
    report = progress_printer()
    async with WorkerClient(options, name=COMMAND, on_status=lambda status: report(describe_loading(status))) as client:
        await client.load()
        if not client.has_model:
            raise WorkerError(ErrorCode.STOPPED, "The worker has ended")
        print(printable(describe_status(client.last_status)) if client.last_status else "")
        return 0


async def _stop(options: WorkerOptions, *, force: bool) -> int:
    async with WorkerClient(options, name=COMMAND) as client:
        if await client.shut_down(if_unused=not force):
            print("stopped")
            return 0
        if (status := client.last_status) is None:
            print("no such worker is running")
            return 0
        print_message(f"other clients use it ({status.clients - 1}); close them, or add --force", COMMAND)
        return 1

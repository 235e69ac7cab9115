"""`infill-ls bench load`: many simultaneous typists, and how long each waits.

Each client is a real LSP session with a real `infill-ls serve`, driven by recorded keystrokes (`load_record.py` says
how they were made): each key makes an edit and a request and cancels the older request; a suggestion that matches the
next text is accepted. The times include the server's typing pause, type-through and cancels, as in an editor. With
`--model` all share one server and its worker, like the windows of one user; with `--url` each has a separate server and
worker, as on separate machines: some 200 MB each.

`--url` takes the same settings as the server, from the environment (INFILL_LS_SERVER_MODEL and so on). The last line of
output is one JSON object. Times are in milliseconds; compare runs on the same machine.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from inference.bench import load_report
from inference.bench.load_editor import LoadEditor
from inference.bench.load_typist import recordings, replay
from inference.bench.server_editor import SERVER, ServerError, server_environment

_READY_S = 600.0
_BEGIN_WITHIN_S = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status: 1 if a request did not get exactly one answer, or none could be
    sent.
    """
    args = argument_parser().parse_args(argv)
    try:
        editors = asyncio.run(_run(args))
    except (ServerError, OSError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 1
    requests = [editor.requests for editor in editors]
    found = load_report.report(requests, sum((editor.told for editor in editors), Counter[str]()))
    found["accepted"] = sum(editor.accepted for editor in editors)
    model = args.url or args.model
    if args.plot:
        args.plot.write_text(load_report.picture(requests, f"{args.clients} clients, {model}"), "utf-8")
    if not args.json:
        print(load_report.shown(found))
    about = {"benchmark": "load", "model": model, "clients": args.clients, "seconds": args.seconds}
    print(json.dumps({**about, **found}))
    return 0 if found["answered"] and not found["unanswered"] and not found["answered_twice"] else 1


async def _run(args: argparse.Namespace) -> list[LoadEditor]:
    """Types for the requested time; returns the editors with their requests."""
    recorded = recordings()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ilb-", ignore_cleanup_errors=True)))
        ports = await _servers(stack, folder, args)
        editors = [await _editor(ports[number % len(ports)], number) for number in range(args.clients)]
        for number, editor in enumerate(editors):
            stack.push_async_callback(editor.close)
            recording = recorded[number % len(recorded)]
            await editor.start(recording["language"], recording["text"])
        await asyncio.gather(*map(_ready, editors))
        print("every client is ready", file=sys.stderr, flush=True)
        began = time.monotonic()
        until = began + args.seconds
        async with asyncio.TaskGroup() as group:
            showing = group.create_task(_show(editors, began, until))
            typing = [
                group.create_task(_begin(editor, recorded[number % len(recorded)], number / args.clients, until))
                for number, editor in enumerate(editors)
            ]
            await asyncio.gather(*typing)
            showing.cancel()
        return editors


async def _begin(editor: LoadEditor, recording: dict[str, Any], turn: float, until: float) -> None:
    """Stagger the first keystrokes."""
    await asyncio.sleep(_BEGIN_WITHIN_S * turn)
    await replay(editor, recording, until)


async def _servers(stack: AsyncExitStack, folder: Path, args: argparse.Namespace) -> list[int]:
    """The ports of the servers: one for all, or with a URL one for each."""
    ports = []
    for number in range(args.clients if args.url else 1):
        runtime = folder / str(number)
        runtime.mkdir(mode=0o700)
        ports.append(await stack.enter_async_context(_server(runtime, args)))
    return ports


@asynccontextmanager
async def _server(runtime: Path, args: argparse.Namespace) -> AsyncIterator[int]:
    """A server with its own worker; returns its port. Both end with it. Raises ServerError."""
    words = [*SERVER, "serve", "--tcp", "127.0.0.1:0", "--model", args.url or args.model]
    words += ["--device", args.device] if args.device else []
    environment = server_environment(runtime)
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        said = (await process.stdout.readline()).decode().strip()
        if not said.startswith("infill-ls listens at tcp://"):
            raise ServerError(f"the server did not start: {said or 'see above'}")
        yield int(said.rpartition(":")[2])
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        stop = [*SERVER, "worker", "--stop", *words[words.index("--model") :]]
        quiet = asyncio.subprocess.DEVNULL
        await (await asyncio.create_subprocess_exec(*stop, env=environment, stdout=quiet, stderr=quiet)).wait()


async def _editor(port: int, number: int) -> LoadEditor:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    return LoadEditor(reader, writer, f"file:///load/{number}/module.py")


async def _ready(editor: LoadEditor) -> None:
    """Waits until the worker has its model. Raises ServerError if it will not."""
    give_up = time.monotonic() + _READY_S
    while True:
        status = (await editor.ask("infill/status", None)).get("result", {})
        if status.get("state") in ("ready", "busy"):
            return
        if status.get("state") in ("failed", "backing_off") or time.monotonic() > give_up:
            raise ServerError(
                f"the worker is {status.get('state')}: {status.get('detail') or status.get('lastFailure')}"
            )
        await asyncio.sleep(0.2)


async def _show(editors: Sequence[LoadEditor], began: float, until: float) -> None:
    """A bar on a terminal, with what was asked and answered so far."""
    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=until - began)
        while True:
            asked = sum(len(editor.requests) for editor in editors)
            open_ = sum(len(editor.unanswered) for editor in editors)
            words = f"{asked} requests, {open_} open"
            progress.update(task, completed=time.monotonic() - began, description=words)
            await asyncio.sleep(0.5)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"not a number from 1 to 10,000: {text[:20]!r}")
    return int(text)


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
    parser = argparse.ArgumentParser(
        prog="infill-ls bench load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=_number, default=12, metavar="N", help="who type (default: %(default)s)")
    parser.add_argument("--seconds", type=_number, default=60, metavar="N", help="how long (default: %(default)s)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--url", metavar="URL", help="a vLLM server, or a router in front of several")
    which.add_argument("--model", default="embedded", metavar="NAME_OR_FOLDER", help="a model here instead")
    parser.add_argument("--device", metavar="NAME", help="where the model here is computed (default: the best found)")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw how long answers took")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The cost of a keystroke in the server itself, in a file of 5,000 lines.

A real server process over stdio asks a worker that answers immediately with meaningless text. It measures a no-op
request (the floor), a keystroke that agrees with the suggestion shown, and one for which the server asks the worker. It
prints one JSON object as its last line. Times are in milliseconds; compare ratios, not machines.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from inference.bench import BenchError, measure_ms, percentiles, positive_int
from inference.bench.server_editor import DEFAULT_URI, SERVER_COMMAND, ScriptedEditor, server_environment
from inference.deadline import Deadline
from inference.messages import Done, FilledHoles, Hole, InfillRequest
from inference.serving import startup
from inference.serving.engine_thread import start_engine_thread
from inference.serving.worker_socket import WorkerSocket
from inference.worker import serve

if TYPE_CHECKING:  # it imports torch
    from inference.engine.engine import Engine

_OPTIONS = {"debounceMs": 0, "deadlineMs": {"automatic": 60_000, "invoked": 60_000}}
_FUNCTION = '''
def name_{0}(first, second):
    """Add what is {0}."""
    total = first + {0}
    for value in second:
        if value > total:
            total += value
    return total

'''
_HEIGHT = _FUNCTION.count("\n")
_LINE_IN_FUNCTION = 4
_TYPED_BEFORE = "    chosen = "
_MAX_LINE_CHARS = 60
_ANSWER = "choose_{}(first, [second, total], default=first)"
"""The fill of every hole, after its required start; the number makes each answer new."""


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measures all sections in one run of one server. Raises BenchError."""
    text = "".join(_FUNCTION.format(index) for index in range(max(args.lines // _HEIGHT, 2)))
    with (
        tempfile.TemporaryDirectory(prefix="ils-") as folder,
        _echo_worker(Path(folder)),
        ScriptedEditor(Path(folder), _OPTIONS) as editor,
    ):
        editor.open(DEFAULT_URI, text)
        if (model := editor.wait_until_ready()["model"]) != EchoEngine.model:
            raise BenchError(f"the worker that answers is not the echo worker: {model}")
        typist = Typist(editor, args.lines // 2, len(text.splitlines()))
        sections = {"no_op": editor.no_op, "remembered": typist.type_suggested, "asked": lambda: typist.type_key("z")}
        for work in sections.values():  # warm up one-time setup
            _timed(typist, work, args.keystrokes // 4 + 1)
        times = {name: _timed(typist, work, args.keystrokes) for name, work in sections.items()}
    for name in ("remembered", "asked"):
        own = {f"own_{cut}": round(ms - times["no_op"][cut], 3) for cut, ms in times[name].items()}
        times[name] |= own
    return {"lines": len(text.splitlines()), "keystrokes": args.keystrokes, "sections": times}


class Typist:
    """Types in one function after the other, below a line of a file of so many, each time on a new line."""

    def __init__(self, editor: ScriptedEditor, line: int, lines: int) -> None:
        self._editor = editor
        self._line = line // _HEIGHT * _HEIGHT + _LINE_IN_FUNCTION - 1  # no line is inserted yet
        self._lines = lines
        self._column = 0
        self._shown = ""

    def type_suggested(self) -> None:
        """Types the next character of the suggestion shown: the server should remember the rest."""
        remainder = self._shown[1:]
        self.type_key(self._shown[0])
        if self._shown != remainder:
            raise BenchError(f"of a suggestion {remainder!r} should have been left, and was {self._shown!r}")

    def go_to_suggestion(self) -> None:
        """Gets to a place with a suggestion: if need be in the next function, away from rejected ones."""
        if len(self._shown) <= 1 or self._column > _MAX_LINE_CHARS:  # once all of it is typed, there is another one
            self.begin_line()

    def begin_line(self) -> None:
        """Leaves the old line as valid Python: a broken one would slow all parses that follow. Raises BenchError."""
        self._editor.type(self._line, self._column, self._shown)
        self._line += _HEIGHT + 1
        self._lines += 1
        if self._line >= self._lines:
            raise BenchError(
                "the file is too short for so many keystrokes: ask for more --lines, or fewer --keystrokes"
            )
        self._editor.type(self._line, 0, f"{_TYPED_BEFORE.rstrip()}\n")
        self._column = len(_TYPED_BEFORE) - 1
        self.type_key(" ")

    def type_key(self, character: str) -> None:
        self._editor.type(self._line, self._column, character)
        self._column += 1
        self._shown = self._editor.completion_text(self._line, self._column)
        if not self._shown:
            raise BenchError("the server had nothing to show")


def _timed(typist: Typist, work: Callable[[], None], count: int) -> dict[str, float]:
    """Percentiles of the times of one key, in ms."""
    typist.begin_line()
    times: list[float] = []
    for _ in range(count):
        typist.go_to_suggestion()
        times += measure_ms(work, 1)
    return percentiles(times)


class EchoEngine:
    """Fills holes without a model, so that only the sockets, the queue and the messages cost time."""

    model = "echo"
    device = "none"
    context_tokens = 0
    is_prefill_pending = False

    def __init__(self) -> None:
        self._numbers = count(1)

    def infill(self, request: InfillRequest, *, deadline: Deadline | None = None) -> Iterator[FilledHoles | Done]:
        holes = [part for part in request.segments if isinstance(part, Hole)]
        texts = tuple(hole.starts_with + _ANSWER.format(next(self._numbers)) for hole in holes)
        yield FilledHoles(request.id, texts)
        yield Done(request.id)

    def run_idle_task(self) -> bool:
        return False


def serve_echo_worker() -> None:
    """The process of a worker with that engine; its arguments are a worker's."""
    arguments = startup.parse_arguments()
    worker_socket = WorkerSocket(arguments.socket, arguments.transport)
    worker_socket.acquire()
    opener = partial(start_engine_thread, lambda *_: cast("Engine", EchoEngine()))
    status = asyncio.run(serve(arguments, worker_socket, opener))
    os._exit(status)  # the engine's thread waits for work


@contextmanager
def _echo_worker(runtime: Path) -> Iterator[None]:
    """Runs an echo worker where servers with this runtime folder look for theirs."""
    command = [*SERVER_COMMAND, "worker", "--where"]
    result = subprocess.run(command, env=server_environment(runtime), capture_output=True, text=True, check=True)
    program = f"from {__name__} import serve_echo_worker; serve_echo_worker()"
    words = [sys.executable, "-P", "-c", program, "--socket", result.stdout.strip(), "--model", EchoEngine.model]
    worker = subprocess.Popen(words)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lines", type=positive_int, default=5_000, help="length of the Python file (default: %(default)s)"
    )
    parser.add_argument("--keystrokes", type=positive_int, default=500, help="in each section (default: %(default)s)")

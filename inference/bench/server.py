"""`infill-ls bench server`: the cost of a keystroke in the server itself, in a file of 5,000 lines.

A real server process over stdio asks a worker that answers immediately with meaningless text. It measures a no-op
request (the floor), a keystroke that agrees with the suggestion shown, and keystrokes for which the server asks the
worker. It prints one JSON object as its last line. Times are in milliseconds; compare ratios, not machines.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inference.bench.server_editor import SERVER, ScriptedEditor, UnexpectedAnswer, server_environment

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
_LONGEST_LINE = 60


def main(argv: Sequence[str] | None = None) -> int:
    args = argument_parser().parse_args(argv)
    try:
        result = measure(args.lines, args.keystrokes)
    except (UnexpectedAnswer, OSError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 1
    for name, section in result["sections"].items():
        print(f"{name}: {json.dumps(section)}")
    print(json.dumps(result))
    return 0


def measure(lines: int, keystrokes: int) -> dict[str, Any]:
    """Measures all sections in one run of one server. Raises UnexpectedAnswer."""
    text = document(lines)
    with (
        tempfile.TemporaryDirectory(prefix="ils-") as folder,
        _echo_worker(Path(folder)),
        ScriptedEditor(Path(folder), _OPTIONS) as editor,
    ):
        editor.open(text)
        if (model := editor.wait_until_ready()["model"]) != "echo":
            raise UnexpectedAnswer(f"the worker that answers is not the echo worker: {model}")
        typist = Typist(editor, lines // 2)
        sections = typist.sections()
        for keystroke in (typist.remembered, typist.asked):  # warm up one-time setup
            _timed(editor, keystroke, max(keystrokes // 4, 2))
        times = {name: _timed(editor, keystroke, keystrokes) for name, keystroke in sections.items()}
    return {
        "lines": len(text.splitlines()),
        "keystrokes": keystrokes,
        "worker": "echo: a real process that answers at once, no model",
        "sections": _with_own_share(times),
    }


def document(lines: int) -> str:
    """Python code of about this many lines."""
    return "".join(_FUNCTION.format(number) for number in range(max(lines // _HEIGHT, 2)))


class Typist:
    """Types in one function after the other, each time on a new line. A section's method returns one keystroke's ms."""

    def __init__(self, editor: ScriptedEditor, line: int) -> None:
        self._editor = editor
        self._line = line // _HEIGHT * _HEIGHT + _LINE_IN_FUNCTION
        self._column = 0
        self._shown = ""
        self._section = ""

    def sections(self) -> dict[str, Callable[[], float]]:
        return {
            "no_op": self.no_op,
            "remembered": self.remembered,
            "asked": self.asked,
            "asked_in_open_bracket": self.asked_in_open_bracket,
            "asked_below_an_error": self.asked_below_an_error,
        }

    def no_op(self) -> float:
        began = time.perf_counter()
        self._editor.no_op()
        return (time.perf_counter() - began) * 1000

    def remembered(self) -> float:
        """Types the next character of the suggestion; begins a new line once all of it is typed."""
        if self._section != "remembered" or len(self._shown) < 2:
            self._begin_line("remembered", _TYPED_BEFORE)
        wanted = self._shown[1:]
        ms = self._key(self._shown[0])
        if self._shown != wanted:
            raise UnexpectedAnswer(f"of a suggestion {wanted!r} should have been left, and was {self._shown!r}")
        return ms

    def asked(self) -> float:
        """Types a character that no suggestion continues with: the server must ask the worker."""
        return self._unexpected("asked", _TYPED_BEFORE)

    def asked_in_open_bracket(self) -> float:
        """The same inside an open bracket, where the text is not valid Python."""
        return self._unexpected("in_open_bracket", _TYPED_BEFORE + "[")

    def asked_below_an_error(self) -> float:
        """The same below an unfinished line."""
        if self._section != "below_an_error":
            self._editor.type(_LINE_IN_FUNCTION, 0, f"{_TYPED_BEFORE}(\n")
            self._line += 1
        return self._unexpected("below_an_error", _TYPED_BEFORE)

    def _unexpected(self, section: str, before: str) -> float:
        if self._section != section or self._column > _LONGEST_LINE:
            self._begin_line(section, before)
        ms = self._key("z")
        if not self._shown:
            raise UnexpectedAnswer("the server had nothing to show")
        return ms

    def _begin_line(self, section: str, text: str) -> None:
        """Begins in the next function, away from rejected suggestions, and leaves the old line as valid Python."""
        rest = {"remembered": self._shown, "in_open_bracket": "]"}.get(self._section, "")
        if rest:
            self._editor.type(self._line, self._column, rest)
        self._line += _HEIGHT + 1
        self._editor.type(self._line, 0, f"{text}\n")
        self._section = section
        self._column = len(text)
        self._shown = self._editor.complete(self._line, self._column)

    def _key(self, character: str) -> float:
        began = time.perf_counter()
        self._editor.type(self._line, self._column, character)
        self._column += 1
        self._shown = self._editor.complete(self._line, self._column)
        return (time.perf_counter() - began) * 1000


def _timed(editor: ScriptedEditor, keystroke: Callable[[], float], count: int) -> dict[str, float]:
    """Percentiles of a section, and the server's processor time per keystroke."""
    used_s = editor.cpu_s()
    times = sorted(keystroke() for _ in range(count))
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    found = {"p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98]}
    found["server_cpu_ms"] = (editor.cpu_s() - used_s) * 1000 / count
    return {name: round(value, 3) for name, value in found.items()}


def _with_own_share(sections: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Adds to each percentile its excess over the floor."""
    floor = sections["no_op"]
    for name in sections.keys() - {"no_op"}:
        own = {f"own_{cut}": round(sections[name][cut] - floor[cut], 3) for cut in ("p50_ms", "p95_ms", "p99_ms")}
        sections[name] |= own
    return sections


@contextmanager
def _echo_worker(runtime: Path) -> Iterator[None]:
    """Runs an echo worker where servers with this runtime folder look for theirs."""
    where = [*SERVER, "worker", "--where"]
    found = subprocess.run(where, env=server_environment(runtime), capture_output=True, text=True, check=True)
    words = [sys.executable, "-P", "-m", "inference.bench.server_echo_worker", "--socket", found.stdout.strip()]
    worker = subprocess.Popen([*words, "--model", "echo"])
    try:
        yield
    finally:
        worker.terminate()
        worker.wait()


def _count(text: str) -> int:
    """A number of lines or keystrokes. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and 10 <= int(text[:7]) <= 100_000):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 10 to 100000")
    return int(text)


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="infill-ls bench server", description=__doc__)
    parser.add_argument("--lines", type=_count, default=5_000, help="length of the Python file (default: %(default)s)")
    parser.add_argument("--keystrokes", type=_count, default=500, help="in each section (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

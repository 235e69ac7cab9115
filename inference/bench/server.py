"""`infill-ls bench server`: the cost of a keystroke in the server itself, in a file of 5,000 lines.

It runs a real server process over stdio, with a worker process that speaks the real protocol but answers immediately
with meaningless text: the figures exclude the model's time. It measures a no-op request (the floor), a keystroke that
agrees with the suggestion shown (so that the server remembers the rest), and keystrokes for which the server asks the
worker. The server's own share is a round trip minus the floor. It also prints the server's processor time, and the cost
of counting for `infill-ls stats`, by alternating with a second server that has it switched off.

It prints one JSON object as its last line. Times are in milliseconds; compare ratios, not machines.
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

from inference.bench.server_editor import PATIENCE_S, SERVER, ScriptedEditor, ServerError, server_environment
from inference.bench.server_typist import Typist, document

TARGET_MS = 3.0
"""The target for the server's own share at p95."""
_OPTIONS = {"debounceMs": 0, "deadlineMs": {"automatic": 60_000, "invoked": 60_000}}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        result = measure(args.lines, args.keystrokes)
    except (ServerError, OSError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 1
    if not args.json:
        _show(result)
    print(json.dumps(result))
    return 0


def measure(lines: int, keystrokes: int) -> dict[str, Any]:
    """Measures all sections in one run of one server. Raises ServerError."""
    text = document(lines)
    with (
        tempfile.TemporaryDirectory(prefix="ils-") as folder,
        _echo_worker(Path(folder)),
        _open_editor(folder) as editor,
        _open_editor(folder, statistics="off") as plain,
    ):
        for each in (editor, plain):
            each.open(text)
            _wait_until_ready(each)
        typist = Typist(editor, lines // 2)
        sections = typist.sections()
        for keystroke in (typist.remembered, typist.asked):  # warm up one-time setup
            _timed(editor, keystroke, max(keystrokes // 4, 2))
        times = {name: _timed(editor, keystroke, keystrokes) for name, keystroke in sections.items()}
        counting = _counting(Typist(editor, 0), Typist(plain, 0), keystrokes)  # away from the text typed above
    return {
        "lines": len(text.splitlines()),
        "keystrokes": keystrokes,
        "worker": "echo: a real process that answers at once, no model",
        "sections": _with_own_share(times),
        "statistics": counting,
        "target_ms": TARGET_MS,
        "within_target": all(times[name]["own_p95_ms"] <= TARGET_MS for name in ("remembered", "asked")),
    }


def _timed(editor: ScriptedEditor, keystroke: Callable[[], float], count: int) -> dict[str, float]:
    """Percentiles of a section, and the server's processor time per keystroke."""
    used_s = editor.cpu_s()
    times = sorted(keystroke() for _ in range(count))
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    found = {"p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98]}
    found["server_cpu_ms"] = (editor.cpu_s() - used_s) * 1000 / count
    return {name: round(value, 3) for name, value in found.items()}


def _counting(on: Typist, off: Typist, keystrokes: int) -> dict[str, dict[str, float]]:
    """How much longer a keystroke takes with statistics than without, at two percentiles; typed in alternation."""
    found = {}
    for name in ("remembered", "asked"):
        keys = [typist.sections()[name] for typist in (on, off)]
        for key in keys:
            key()
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(2 * keystrokes):
            which = (number + number // 2) % 2  # neither is always the first
            times[which].append(keys[which]())
        on_cuts, off_cuts = (statistics.quantiles(each, n=100, method="inclusive") for each in times)
        found[name] = {f"{cut}_ratio": on_cuts[at] / off_cuts[at] for cut, at in (("p50", 49), ("p95", 94))}
    return {name: {key: round(value, 3) for key, value in of.items()} for name, of in found.items()}


def _with_own_share(sections: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Adds to each percentile its excess over the floor."""
    floor = sections["no_op"]
    for name in sections.keys() - {"no_op"}:
        own = {f"own_{cut}": round(sections[name][cut] - floor[cut], 3) for cut in ("p50_ms", "p95_ms", "p99_ms")}
        sections[name] |= own
    return sections


def _open_editor(runtime: str, **options: Any) -> ScriptedEditor:
    return ScriptedEditor(Path(runtime), {**_OPTIONS, **options})


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


def _wait_until_ready(editor: ScriptedEditor) -> None:
    """Waits until the worker is ready. Raises ServerError if it is not the echo worker."""
    give_up = time.monotonic() + PATIENCE_S
    while (status := editor.status())["state"] != "ready":
        if time.monotonic() > give_up:
            raise ServerError(f"the worker is {status['state']}")
        time.sleep(0.05)
    if status["model"] != "echo":
        raise ServerError(f"the worker that answers is not the echo worker: {status['model']}")


def _show(result: dict[str, Any]) -> None:
    print(f"{result['lines']} lines, {result['keystrokes']} keystrokes each; worker: {result['worker']}")
    for name, section in result["sections"].items():
        own = f", of which the server itself {section['own_p95_ms']:.2f} at p95" if "own_p95_ms" in section else ""
        times = " / ".join(f"{section[cut]:.2f}" for cut in ("p50_ms", "p95_ms", "p99_ms"))
        print(f"{name:22} p50 / p95 / p99 {times} ms{own}; server CPU {section['server_cpu_ms']:.2f} ms")
    for name, found in result["statistics"].items():
        ratios = f"{found['p50_ratio']:.2f} / {found['p95_ratio']:.2f}"
        print(f"{name:22} p50 / p95 with statistics {ratios} times those without")


def _count(text: str) -> int:
    """A number of lines or keystrokes. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and 10 <= int(text[:7]) <= 100_000):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 10 to 100000")
    return int(text)


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
    parser = argparse.ArgumentParser(prog="infill-ls bench server", description=__doc__)
    parser.add_argument("--lines", type=_count, default=5_000, help="length of the Python file (default: %(default)s)")
    parser.add_argument("--keystrokes", type=_count, default=500, help="in each section (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Presses keys in real VS Code for `infill-ls bench editor`: python -m tests.editors.vscode.bench

Real server, real worker, real model. Prints one JSON list: by the setting `readAhead`, the times of each key press that
brought ghost text; and the ends of the worker's requests, as `inference/bench/editor.py` takes them. Its time until the
server is asked counts until the server's process has the request.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError, sync_playwright

from inference.bench.editor import Ends, Presses, engine_end_times
from tests.editors.vscode.code_server import CodeServer, browser_in, new_home, why_missing
from tests.editors.vscode.window import Window

PATIENCE_MS = 10_000
ATTEMPTS = 2
"""A machine that is busy for a while loses a key press or a click."""
HERE = Path(__file__).resolve().parent
_FUNCTION = '''\
def name_{0}(first, second):
    """Add what is {0}."""
    total = first + {0}
    for value in second:
        total += value
    return total


'''
_HEIGHT, _LINE, _COLUMN = _FUNCTION.count("\n"), 6, 12
_REST_S = 1.0
_APART = 16
"""Of so many functions one lacks its end. A model copies those of the others, and sees fewer than lie between two."""


@dataclass(frozen=True)
class Message:
    at: float
    id: int | str
    method: str | None


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what was measured; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.editors.vscode.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--keystrokes", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="default: %(default)s")
    args = parser.parse_args(argv)
    if reason := why_missing():
        print(f"infill-ls: {reason}; run: make test-editors", file=sys.stderr)
        return 1
    for _ in range(ATTEMPTS):
        with new_home() as home:
            try:
                result = measure(home, args.keystrokes, args.model)
            except (PlaywrightError, AssertionError) as error:
                print(f"infill-ls: {why(error)}", file=sys.stderr)
                continue
        print(json.dumps(result))
        return 0
    return 1


def why(error: Exception) -> str:
    """One line for a user: what VS Code did not do, and how busy the machine is."""
    first, *log = str(error).splitlines() or [type(error).__name__]
    waited = next((line.strip(" -") for line in log if "waiting for" in line), "")
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    return f"VS Code was too slow ({' '.join([first, waited]).strip()}; {load}); try again on a less busy machine"


def measure(home: Path, keystrokes: int, model: str) -> tuple[Presses, Ends]:
    code_server = CodeServer(home)
    server, tap = home / "bin" / "tap", home / "tap.log"
    words = (sys.executable, HERE / "tap.py", tap, home / "bin" / "infill-ls")
    server.write_text(f'#!/bin/sh\nexec {" ".join(map(str, words))} "$@"\n')
    server.chmod(0o755)
    own: dict[str, Any] = {
        "infill__executable": str(server),
        "infill__drafts": False,
        "infill__nextEdit__enabled": False,  # the search for one takes the time in which the worker reads ahead
        "infill__model": model,
        "infill__deadlineMs__automatic": default("deadlineMs.automatic"),
    }
    code_server.set(**own)  # the tests' deadlines are longer than a user's
    code_server.install()
    try:
        with sync_playwright() as playwright:
            window = Window(browser_in(playwright, home, None), code_server.start(), home / "project")
            presses = list(_presses(window, keystrokes, partial(code_server.set, **own)))
    finally:
        code_server.stop()
    messages = [Message(**json.loads(line)) for line in tap.read_text().splitlines()]
    found: dict[str, list[dict[str, float]]] = {"on": [], "off": []}
    for read_ahead, key, painted in presses:
        if stages := _stages(key, painted, messages):
            found[read_ahead].append(stages)
    return found, engine_end_times(code_server.runtime)


def _presses(window: Window, keystrokes: int, settings: Callable[..., None]) -> Iterator[tuple[str, float, float]]:
    """`readAhead`, when the key went down and when ghost text was painted, for each press that brought some."""
    functions = [_FUNCTION.format(number + 1) for number in range((2 * keystrokes + 1) * _APART)]
    for number in range(_APART - 1, len(functions), _APART):
        functions[number] = functions[number].replace("return total", "return ")
    window.open("bench.py", "".join(functions))
    window.status_is("sparkle")
    window.page.evaluate((HERE / "bench.js").read_text())
    for number in range(2 * keystrokes + 1):
        read_ahead = "on" if number % 2 else "off"
        settings(infill__readAhead=read_ahead)
        time.sleep(_REST_S)  # until the server has been told
        window.go_to(((number + 1) * _APART - 1) * _HEIGHT + _LINE, _COLUMN)
        time.sleep(_REST_S)
        window.press("t")
        with suppress(TimeoutError):  # not every place gets a suggestion
            window.page.wait_for_function("window.timed.painted", timeout=PATIENCE_MS)
        timed = window.page.evaluate("window.timed")
        if number > 0 and timed["painted"]:  # the first warms up what is computed once
            yield read_ahead, timed["key"], timed["painted"]
        window.press(*"otal", "Escape")


def _stages(key: float, painted: float, messages: Sequence[Message]) -> dict[str, float] | None:
    """When the request and the answer between `key` and `painted` came; None when no request was answered then."""
    within = [message for message in messages if key <= message.at <= painted]
    asked = [message for message in within if message.method == "textDocument/inlineCompletion"]
    for request in reversed(asked):
        answer = next((m for m in within if m.id == request.id and m.method is None and m.at > request.at), None)
        if answer is not None:
            return {"key": key, "asked": request.at, "answered": answer.at, "painted": painted}
    return None


def default(setting: str) -> Any:
    manifest = json.loads((HERE.parents[2] / "editors" / "vscode" / "package.json").read_text())
    return manifest["contributes"]["configuration"]["properties"][f"infill.{setting}"]["default"]


if __name__ == "__main__":
    sys.exit(main())

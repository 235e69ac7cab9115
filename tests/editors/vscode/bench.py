"""Presses keys in real VS Code for `tests/editors/bench.py`. The server is asked once its process has the request."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError, sync_playwright

from inference.bench import BenchError
from tests.editors.vscode.code_server import CodeServer, browser_in, new_home, why_missing
from tests.editors.vscode.window import Window

PATIENCE_MS = 10_000
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


_ENDED = re.compile(r"^(\S+ \S+?),(\d+) .*a request ended after (\d+) ms", re.MULTILINE)
Presses = Mapping[str, Sequence[Mapping[str, float]]]
"""By the setting `readAhead`, on and off: for each key press, the times of its stages, in seconds since 1970."""
Ends = Sequence[tuple[float, float]]
"""When each request of the worker ended, in seconds since 1970, and its duration in ms."""


@dataclass(frozen=True)
class Message:
    at: float
    id: int | str
    method: str | None


def press_keys(keystrokes: int, model: str) -> tuple[Presses, Ends]:
    """Raises BenchError."""
    if reason := why_missing():
        raise BenchError(f"{reason}; run: make test-editors")
    with new_home() as home:
        try:
            return measure(home, keystrokes, model)
        except (PlaywrightError, AssertionError) as error:
            raise BenchError(f"VS Code was too slow: {str(error).splitlines()[:1]}") from error


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


def engine_end_times(runtime: Path) -> Ends:
    matches = [match for log in runtime.glob("*.log") for match in _ENDED.findall(log.read_text("utf-8"))]
    return [(datetime.fromisoformat(stamp).timestamp() + int(part) / 1000, float(ms)) for stamp, part, ms in matches]

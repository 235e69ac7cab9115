"""The sources of offers for `infill-ls bench next-edit`: the language server, or the model alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inference.bench.next_edit_cases import EditCase, changes
from inference.bench.server_editor import PATIENCE_S, ScriptedEditor, ServerError
from inference.engine import Engine
from inference.messages import Edit, Hunk, NextEditRequest, NextEdits


@dataclass(frozen=True)
class State:
    """A case in progress: the text before the first change, and the current one. `cursor` is an offset."""

    case: EditCase
    before: str
    text: str
    cursor: int

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """The changes so far, by lines of the current text."""
        found, shift = [], 0
        for change in changes(self.before, self.text):
            found.append(Hunk(change.line + shift, change.old, change.new))
            shift += change.new.count("\n") - change.old.count("\n")
        return tuple(found)


Offers = Callable[[State, bool], Edit | None]
"""The next offer for a text, or None. The second argument: whether the last offer led to this text."""


class ServerOffers:
    """The product: a language server over stdio, asked as an editor asks it."""

    def __init__(self, editor: ScriptedEditor) -> None:
        self._editor, self._number, self._version = editor, 0, 0
        self._uri = self._text = ""
        self._case: EditCase | None = None
        self._command: dict[str, Any] | None = None

    def __call__(self, state: State, accepted: bool) -> Edit | None:
        """See `Offers`."""
        if state.case is not self._case:
            self._open(state.case)
        self._change(state.text)
        if accepted and self._command:
            words = {"command": self._command["command"], "arguments": self._command["arguments"]}
            self._editor.ask("workspace/executeCommand", words)
        document = {"uri": self._uri, "version": self._version}
        params = {"textDocument": document, "position": _position(state.text, state.cursor)}
        found = self._editor.ask("textDocument/copilotInlineEdit", {**params, "context": {"triggerKind": 2}})["edits"]
        self._command = found[0]["command"] if found else None
        if not found:
            return None
        start, end = (_offset(state.text, found[0]["range"][side]) for side in ("start", "end"))
        return Edit(start, end, found[0]["text"])

    def _open(self, case: EditCase) -> None:
        """Opens a case's file in its state before the first change."""
        if self._case:
            self._editor.tell("textDocument/didClose", {"textDocument": {"uri": self._uri}})
        self._case, self._number, self._version, self._text = case, self._number + 1, 1, case.text
        self._uri = f"file:///project/{self._number}/{case.path}"
        document = {"uri": self._uri, "languageId": case.language, "version": 1, "text": case.text}
        self._editor.tell("textDocument/didOpen", {"textDocument": document})

    def _change(self, text: str) -> None:
        """Tells the server about the change, as one minimal edit."""
        old, new = self._text, text
        first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        if old == new:
            return
        same = 0
        while same < min(len(old), len(new)) - first and old[-1 - same] == new[-1 - same]:
            same += 1
        self._version += 1
        places = {"start": _position(old, first), "end": _position(old, len(old) - same)}
        document = {"uri": self._uri, "version": self._version}
        change = {"range": places, "text": new[first : len(new) - same]}
        self._editor.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        self._text = text

    def wait_for_model(self) -> None:
        """Waits until the worker has its model. Raises ServerError if it cannot load it."""
        give_up = time.monotonic() + 5 * PATIENCE_S
        while (status := self._editor.status())["state"] not in ("ready", "busy"):
            if status["state"] == "failed" or time.monotonic() > give_up:
                raise ServerError(f"the worker is {status['state']}: {status.get('detail', '')}")
            time.sleep(0.2)


def model_offers(engine: Engine) -> Offers:
    """The model alone: the worker's engine in this process, without the server's syntax."""

    def ask(state: State, _accepted: bool) -> Edit | None:
        case = state.case
        request = NextEditRequest("next", state.text, state.hunks, case.language, case.path, state.cursor)
        answer = next(event for event in engine.next_edits(request) if isinstance(event, NextEdits))
        return answer.edits[0] if answer.edits else None

    return ask


def _position(text: str, offset: int) -> dict[str, Any]:
    line = text.count("\n", 0, offset)
    start = text.rfind("\n", 0, offset) + 1
    return {"line": line, "character": len(text[start:offset].encode("utf-16-le")) // 2}


def _offset(text: str, position: dict[str, int]) -> int:
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: position["line"]])
    inside = lines[position["line"]].encode("utf-16-le")[: 2 * position["character"]]
    return before + len(inside.decode("utf-16-le"))

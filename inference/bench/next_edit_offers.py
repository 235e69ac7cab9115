"""The sources of offers for `infill-ls bench next-edit`: the language server, the model alone, or the model
in a chat.
"""

import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from inference.bench.next_edit_cases import EditCase
from inference.bench.next_edit_diff import changes
from inference.bench.server_editor import PATIENCE_S, ScriptedEditor, ServerError
from inference.engine import Engine
from inference.messages import Edit, Hunk, NextEditRequest, NextEdits
from inference.models.family import MiddleFamily

_AROUND_LINES = 12
_MOST_CHAT_TOKENS = 400
_CHAT = (
    "You are given a region of the file {path} and the change that its author has just made elsewhere in the file. If "
    "the region needs a change to go with it, rewrite the region with that change. If not, repeat the region as it is. "
    "Answer with the region in one code block and nothing else.\n\nThe change:\n```diff\n{diff}```\n\n"
    "The region:\n```\n{region}```\n"
)
_BLOCK = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)


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


class Offers(Protocol):
    """Plays cases one after the other."""

    def begin(self, case: EditCase) -> None:
        """Opens a case's file in its state before the first change."""

    def ask(self, state: State, *, accepted: bool) -> Edit | None:
        """The next offer for a text; None: there is none. `accepted`: the last offer led to this text."""


class NoOffers:
    """Never offers anything."""

    def begin(self, case: EditCase) -> None:
        """See `Offers`."""

    def ask(self, state: State, *, accepted: bool) -> Edit | None:
        """See `Offers`."""


class ServerOffers:
    """The product: a language server over stdio, asked as an editor asks it."""

    def __init__(self, editor: ScriptedEditor) -> None:
        self._editor, self._number, self._version = editor, 0, 0
        self._uri = self._text = ""
        self._command: dict[str, Any] | None = None

    def begin(self, case: EditCase) -> None:
        """See `Offers`."""
        if self._number:
            self._editor.tell("textDocument/didClose", {"textDocument": {"uri": self._uri}})
        self._number, self._version, self._text = self._number + 1, 1, case.text
        self._uri = f"file:///project/{self._number}/{case.path}"
        document = {"uri": self._uri, "languageId": case.language, "version": 1, "text": case.text}
        self._editor.tell("textDocument/didOpen", {"textDocument": document})

    def ask(self, state: State, *, accepted: bool) -> Edit | None:
        """See `Offers`."""
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


class ModelOffers:
    """The model alone: the worker's engine in this process, without the server's syntax."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, case: EditCase) -> None:
        """See `Offers`."""

    def ask(self, state: State, *, accepted: bool) -> Edit | None:
        """See `Offers`."""
        case = state.case
        request = NextEditRequest("next", state.text, state.hunks, case.language, case.path, state.cursor)
        answer = next(event for event in self._engine.next_edits(request) if isinstance(event, NextEdits))
        return answer.edits[0] if answer.edits else None


class ChatOffers:
    """The same model, asked in a chat to rewrite the lines around each place that the author changed next.

    It is told where to look, which no user could do; in a quiet case it sees the lines around the change.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._left: list[int] = []

    def begin(self, case: EditCase) -> None:
        """See `Offers`."""
        self._left = [change.line for change in case.changes[1:]] or [case.changes[0].line if case.changes else 0]

    def ask(self, state: State, *, accepted: bool) -> Edit | None:
        """See `Offers`."""
        shift = state.text.count("\n") - state.before.count("\n")
        lines = state.text.splitlines(keepends=True)
        while self._left:
            line = self._left.pop(0) + shift
            first, end = max(0, line - _AROUND_LINES), min(len(lines), line + _AROUND_LINES)
            region = "".join(lines[first:end])
            found = _BLOCK.search(self._answer(state, region) + "\n```")
            if found and found[1].strip() and found[1].strip() != region.strip():
                start = sum(map(len, lines[:first]))
                return Edit(start, start + len(region), found[1])
        return None

    def _answer(self, state: State, region: str) -> str:
        hunks = (f"-{line}" for hunk in state.hunks for line in hunk.old.splitlines(keepends=True))
        added = (f"+{line}" for hunk in state.hunks for line in hunk.new.splitlines(keepends=True))
        asked = _CHAT.format(path=state.case.path, diff="".join((*hunks, *added)), region=region)
        family = cast("MiddleFamily", self._engine.loaded.family)
        ids = family.chat_prompt(asked)
        if ids is None:
            raise ServerError("this model was not trained to chat")
        return self._engine.loaded.vocabulary.decode(_written(family, ids))


def _written(family: MiddleFamily, ids: Sequence[int]) -> list[int]:
    """The model's greedy text behind a prompt."""
    with closing(family.open(ids)) as context:
        for _ in context.encode():
            pass
        writing, written, fed = context.continuation(1, _MOST_CHAT_TOKENS), list[int](), torch.zeros(1, 0).long()
        while len(written) < _MOST_CHAT_TOKENS - 1:
            token = int(writing.feed(fed)[0].argmax())
            if token in family.end_ids:
                break
            written.append(token)
            fed = torch.tensor([[token]])
    return written


def _position(text: str, offset: int) -> dict[str, Any]:
    line = text.count("\n", 0, offset)
    start = text.rfind("\n", 0, offset) + 1
    return {"line": line, "character": len(text[start:offset].encode("utf-16-le")) // 2}


def _offset(text: str, position: dict[str, int]) -> int:
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: position["line"]])
    inside = lines[position["line"]].encode("utf-16-le")[: 2 * position["character"]]
    return before + len(inside.decode("utf-16-le"))


def data_file(name: str) -> Path:
    """The file of one half of the cases, in a checkout."""
    return Path(__file__).parents[2] / "tests" / "data" / "next_edit" / f"{name}.jsonl.gz"

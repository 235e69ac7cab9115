"""`infill-ls bench next-edit`: after an author's edit, are the author's next edits offered, and nothing else?

Each case is played like a user who knows what the author did: make the first change, accept an exact offer, and ask for
the next one. A wrong offer ends the case. In a quiet case any offer is needless. It prints one JSON object as its last
line. Times are in milliseconds, and with the server they include its pause.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.bench import next_edit_cases
from inference.bench.next_edit_cases import CaseResult, EditCase, changes, is_exact
from inference.bench.server_editor import PATIENCE_S, ScriptedEditor, UnexpectedAnswer
from inference.engine import Engine
from inference.messages import Edit, Hunk, NextEditRequest, NextEdits
from inference.models.catalogue import EMBEDDED
from inference.models.family import common_ends

_MORE_OFFERS = 2
"""A case ends after this many more offers than places, in case one is split."""
DEADLINES = {"automatic": 40_000, "invoked": 40_000}
"""A slow machine must give the same offers."""
_REPORT_HALF = Path(__file__).parents[2] / "tests" / "data" / "next_edit" / "report.jsonl.gz"
"""In a checkout."""


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
    """`Offers` of the product: a language server over stdio, asked as an editor asks it."""

    def __init__(self, editor: ScriptedEditor) -> None:
        self._editor = editor
        self._number = 0
        self._version = 0
        self._uri = self._text = ""
        self._case: EditCase | None = None
        self._command: dict[str, Any] | None = None

    def __call__(self, state: State, accepted: bool) -> Edit | None:
        if state.case is not self._case:
            self._open(state.case)
        self._change(state.text)
        if accepted and self._command:
            words = {"command": self._command["command"], "arguments": self._command["arguments"]}
            self._editor.ask("workspace/executeCommand", words)
        document = {"uri": self._uri, "version": self._version}
        params = {"textDocument": document, "position": position_of(state.text, state.cursor)}
        found = self._editor.ask("textDocument/copilotInlineEdit", {**params, "context": {"triggerKind": 2}})["edits"]
        self._command = found[0]["command"] if found else None
        if not found:
            return None
        start, end = (offset_of(state.text, found[0]["range"][side]) for side in ("start", "end"))
        return Edit(start, end, found[0]["text"])

    def _open(self, case: EditCase) -> None:
        """Opens a case's file in its state before the first change."""
        if self._case:
            self._editor.tell("textDocument/didClose", {"textDocument": {"uri": self._uri}})
        self._case = case
        self._number = self._number + 1
        self._version = 1
        self._text = case.text
        self._uri = f"file:///project/{self._number}/{case.path}"
        document = {"uri": self._uri, "languageId": case.language, "version": 1, "text": case.text}
        self._editor.tell("textDocument/didOpen", {"textDocument": document})

    def _change(self, text: str) -> None:
        """Tells the server about the change, as one minimal edit."""
        old = self._text
        if old == text:
            return
        first, same = common_ends(old, text)
        self._version += 1
        places = {"start": position_of(old, first), "end": position_of(old, len(old) - same)}
        document = {"uri": self._uri, "version": self._version}
        change = {"range": places, "text": text[first : len(text) - same]}
        self._editor.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        self._text = text


def model_offers(engine: Engine) -> Offers:
    """The model alone: the worker's engine in this process, without the server's syntax."""

    def ask(state: State, _accepted: bool) -> Edit | None:
        case = state.case
        request = NextEditRequest("next", state.text, state.hunks, case.language, case.path, state.cursor)
        answer = next(event for event in engine.next_edits(request) if isinstance(event, NextEdits))
        return answer.edits[0] if answer.edits else None

    return ask


def position_of(text: str, offset: int) -> dict[str, Any]:
    """The protocol's position of an offset."""
    line = text.count("\n", 0, offset)
    start = text.rfind("\n", 0, offset) + 1
    return {"line": line, "character": len(text[start:offset].encode("utf-16-le")) // 2}


def offset_of(text: str, position: dict[str, int]) -> int:
    """The offset of the protocol's position."""
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: position["line"]])
    inside = lines[position["line"]].encode("utf-16-le")[: 2 * position["character"]]
    return before + len(inside.decode("utf-16-le"))


def main(argv: Sequence[str] | None = None) -> int:
    """Plays and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        cases = _chosen(list(next_edit_cases.read(args.cases or _REPORT_HALF)), args.limit)
        with _offers(args.ask, args.model, args.dtype) as offers:
            results = [_told(number, play(offers, case)) for number, case in enumerate(cases, 1)]
    except (UnexpectedAnswer, OSError, ValueError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 1
    found = {"asked": args.ask, "model": args.model, **figures(results)}
    print(json.dumps(found))
    return 0


def play(offers: Offers, case: EditCase) -> CaseResult:
    """Plays one case."""
    result = CaseResult(case, case.edited)
    cursor, began = _end_of_edit(case), time.monotonic()
    for number in range(len(case.changes) + _MORE_OFFERS):
        asked = time.monotonic()
        edit = offers(State(case, case.text, result.text, cursor), number > 0)
        result.asked_ms.append((time.monotonic() - asked) * 1000)
        if edit is None:
            break
        if result.first_ms is None:
            result.first_ms = (time.monotonic() - began) * 1000
        after = result.text[: edit.start] + edit.text + result.text[edit.end :]
        result.offers.append(is_exact(result.text, after, case.finished))
        if case.is_quiet or not result.offers[-1]:
            break
        result.text = after
        cursor = edit.start + len(edit.text)
    return result


def figures(results: Sequence[CaseResult]) -> dict[str, Any]:
    """Shares are 0 to 1. `exact` is of all offers in cases that need edits, `places` the share of needed places."""
    edits = [one for one in results if not one.case.is_quiet]
    quiet = [one for one in results if one.case.is_quiet]
    offered = sum(len(one.offers) for one in edits)
    needed = sum(one.needed for one in edits)
    exact = sum(sum(one.offers) for one in edits)
    firsts = [one.first_ms for one in results if one.first_ms is not None]
    asked = [ms for one in results for ms in one.asked_ms]
    found = {
        "cases": len(edits),
        "needed_places": needed,
        "offers": offered,
        "offers_per_needed_place": offered / needed if needed else 0.0,
        "exact": exact / offered if offered else 0.0,
        "exact_per_needed_place": exact / needed if needed else 0.0,
        "quiet_cases": len(quiet),
        "needless": sum(bool(one.offers) for one in quiet) / len(quiet) if quiet else 0.0,
        "first_offer_p50_ms": statistics.median(firsts) if firsts else None,
        "answer_p50_ms": statistics.median(asked) if asked else None,
    }
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in found.items()}


def _chosen(cases: Sequence[EditCase], limit: int | None) -> list[EditCase]:
    """The first cases of both sorts, equally many."""
    edits, quiet = ([one for one in cases if one.is_quiet == wanted] for wanted in (False, True))
    return [*edits[:limit], *quiet[:limit]]


def _end_of_edit(case: EditCase) -> int:
    lines = case.text.splitlines(keepends=True)
    if not case.changes:
        return len("".join(lines[: case.cursor]))
    return len("".join(lines[: case.changes[0].line])) + max(0, len(case.changes[0].new) - 1)


@contextmanager
def _offers(ask: str, model: str | None, dtype: str | None) -> Iterator[Offers]:
    if ask == "server":
        options: dict[str, Any] = {"statistics": "off", "deadlineMs": DEADLINES, "model": model or EMBEDDED}
        with tempfile.TemporaryDirectory(prefix="ils-") as folder, ScriptedEditor(Path(folder), options) as editor:
            if model:
                editor.wait_until_ready(5 * PATIENCE_S)
            yield ServerOffers(editor)
    else:
        from inference.models import registry

        engine = Engine(registry.load(model or EMBEDDED, dtype=dtype))
        yield model_offers(engine)


def _told(number: int, result: CaseResult) -> CaseResult:
    """Reports the result of a case on the error stream."""
    marks = "".join("+" if one else "-" for one in result.offers) or "."
    print(f"{number:4} {marks:6} of {result.needed}  {result.case.name}", file=sys.stderr, flush=True)
    return result


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
    parser = argparse.ArgumentParser(prog="infill-ls bench next-edit", description=__doc__)
    parser.add_argument("--ask", choices=("server", "model"), default="server", help="whom (default: %(default)s)")
    parser.add_argument("--model", metavar="NAME", help="the checkpoint; without one the server uses syntax alone")
    parser.add_argument("--dtype", metavar="NAME", help="what to compute in, without the server")
    parser.add_argument("--cases", type=Path, metavar="FILE", help="cases (default: the report half of the checkout)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N that need edits, and N quiet ones")
    return parser


if __name__ == "__main__":
    sys.exit(main())

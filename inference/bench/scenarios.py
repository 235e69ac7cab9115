"""What the server offers in published next-edit scenarios, asked as an editor asks.

The scenarios are `.txtar` files in the format of cursortab.nvim (github.com/leonardcser/cursortab.nvim, folder
server/eval/scenarios). A scenario's history happens as edits. Then automatic requests ask for a next edit at its cursor
and, with --model, else for ghost text where the scenario has its hole. All that is offered is taken, until nothing is.
With --recorded, a small HTTP server answers for the edit model with what that said when others asked it for the same
lines: JSON lines with `scenario`, `model`, `prompt` and `text`.

    delta_chrf  share of the nearest accepted change that was made (0 to 1), by character n-grams; the mean
    shown       share of the scenarios that want an edit and got an offer
    quiet       share of the cursors that want none and got none
    score       delta_chrf times the harmonic mean of shown and quiet, as their project reports it
    ms          from the first request at a cursor to an offer, or to none
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from inference.bench import BenchError, percentiles
from inference.bench.next_edit import DEADLINES_MS
from inference.bench.server_editor import ScriptedEditor, ShownEdit, offset_of
from inference.messages import Hunk
from inference.models import edit_prompts
from inference.models.catalogue import EMBEDDED
from inference.models.edit_prompts import EditPrompt

_MAX_OFFERS = 24
_ROOT = "file:///project"
_HISTORY = "file:///history{}"
"""A folder for each change of another text."""


@dataclass(frozen=True)
class Scenario:
    """A file, the user's last changes without their lines, and the accepted texts; none: nothing should be offered.

    `cursors` are offsets into `text`, and `hole` is where a fill belongs, if not at the cursor.
    """

    name: str
    language: str
    path: str
    text: str
    is_modified: bool
    cursors: tuple[int, ...]
    hole: int | None
    history: tuple[Hunk, ...]
    expected: tuple[str, ...]

    @classmethod
    def parse(cls, file: Path) -> "Scenario":
        """Raises OSError, KeyError or ValueError."""
        head, *sections = re.split(r"^-- ([\w.]+) --\n", file.read_text("utf-8"), flags=re.MULTILINE)
        named = [(name, text.rstrip("\n")) for name, text in zip(sections[::2], sections[1::2], strict=True)]
        parts = dict(named)
        fields = defaultdict(str, re.findall(r"^([a-z-]+|viewport\w+): (.*)$", head, re.MULTILINE))
        text = parts["buffer.txt"]

        def offsets(places: str) -> list[int]:
            return [offset_of(text, int(row) - 1, int(column)) for row, column in re.findall(r"(\d+):(\d+)", places)]

        return cls(
            file.stem,
            fields["language"],
            fields["file"],
            text,
            fields["modified"] != "false",
            tuple(offsets(f"{fields['row']}:{fields['col']},{fields['cursor-positions']}")),
            next(iter(offsets(f"{fields['fim-row']}:{fields['fim-col']}")), None),
            tuple(_history(parts.get("history", ""))),
            tuple(text for name, text in named if name == "expected"),
        )


def _history(text: str) -> Iterator[Hunk]:
    for entry in text.split("<|file|> ")[1:]:
        path, _, body = entry.partition("\n")
        old, _, new = body.partition("<|new|>\n")
        yield Hunk(0, old.removeprefix("<|old|>\n"), new.removesuffix("\n") + "\n", path.strip())


def _read_prompt(prompt: str) -> tuple[EditPrompt, str]:
    """The prompt and its region, with one line feed at the end. Raises ValueError."""
    parsed = edit_prompts.parse_edit_prompt(prompt)
    if parsed is None:
        raise ValueError(f"a prompt of no known kind: {prompt[-80:]!r}")
    return parsed[0], parsed[0].current.rstrip("\n") + "\n"


@dataclass(frozen=True)
class RecordedModel:
    """An HTTP server that answers for an edit model with the `rewrites` of regions, and leaves others as they are."""

    name: str
    rewrites: Mapping[str, str]

    @classmethod
    def read(cls, file: Path, name: str) -> "RecordedModel":
        """Raises OSError, KeyError or ValueError, also if the file has no answers of this model."""
        rewrites = dict[str, str]()
        for answer in map(json.loads, file.read_text("utf-8").splitlines()):
            if answer["model"] == name:
                prompt, region = _read_prompt(answer["prompt"])
                rewrites[region] = prompt.rewritten_region(answer["text"]).rstrip("\n") + "\n"
        if not rewrites:
            raise ValueError(f"{file} has no answers of {name}")
        return cls(name, rewrites)

    def complete(self, prompt: str) -> str:
        """The answer to a prompt. Raises ValueError."""
        parsed_prompt, region = _read_prompt(prompt)
        return parsed_prompt.answer_with(self.rewrites.get(region, region), parsed_prompt.stop_strings)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Its URL, while it is open."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send({"data": [{"id": model.name}]})

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._send({"choices": [{"text": model.complete(request["prompt"]), "finish_reason": "stop"}]})

            def _send(self, reply: object) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()


@dataclass
class PlayedScenario:
    """A scenario played at a cursor: the text with all that was offered, and how long the first answer took."""

    scenario: Scenario
    text: str
    offers: int
    first_ms: float

    @property
    def delta_chrf(self) -> float:
        text = self.text.rstrip("\n")
        return max(delta_chrf(self.scenario.text, text, expected) for expected in self.scenario.expected)

    def __str__(self) -> str:
        if not self.scenario.expected:
            result = "false" if self.offers else "quiet"
        else:
            result = f"{self.delta_chrf:.3f}" if self.offers else "none "
        return f"{result} {self.first_ms:6.0f} ms  {self.scenario.name}"


def play(editor: ScriptedEditor, scenario: Scenario, cursor: int, *, fills: bool, is_verbose: bool) -> PlayedScenario:
    """Plays a scenario like a user who takes every offer; `fills`: also ghost text, if there is no next edit."""
    uri = f"{_ROOT}/{scenario.path}"
    _make_changes(editor, scenario, uri, cursor)
    hole = cursor if scenario.hole is None else scenario.hole
    began = time.perf_counter()
    offer = editor.next_edit(uri, cursor) or (editor.ghost_text(uri, hole) if fills else None)
    first_ms = (time.perf_counter() - began) * 1000
    if is_verbose and offer is None:
        status = editor.status_at(uri, hole)
        _say("no offer:", status["off"] or status["noHole"] or "see the log above")
        if fills and (dropped := editor.ghost_text(uri, hole, invoked=True)):
            _say("if asked to:", _shown(editor, uri, dropped))
    offers = 0
    while offer and offers < _MAX_OFFERS:
        if is_verbose:
            _say("offer:", _shown(editor, uri, offer))
        offers += 1
        offer = editor.next_edit(uri, editor.accept(uri, offer))
    text = editor.texts[uri]
    editor.close_all()
    return PlayedScenario(scenario, text, offers, first_ms)


def _make_changes(editor: ScriptedEditor, scenario: Scenario, uri: str, cursor: int) -> None:
    """Makes the changes of a scenario's history: in its file where their result stands there, else in other files."""
    text = scenario.text
    changes = list[tuple[str, int, str, str]]()
    for index, change in reversed([*enumerate(scenario.history)]):
        old = change.old.removesuffix("\n")
        new = change.new.removesuffix("\n")
        starts = [match.start() for match in re.finditer(re.escape(new), text)] if new else []
        if starts:
            start = min(starts, key=lambda offset: abs(offset - cursor))
            changes.insert(0, (uri, start, old, new))
            text = text[:start] + old + text[start + len(new) :]
        else:
            other_uri = f"{_HISTORY.format(index)}/{change.path}"
            changes.insert(0, (other_uri, 0, old, new))
            editor.open(other_uri, change.old, scenario.language)
    editor.open(uri, text, scenario.language)
    if scenario.is_modified and not changes:  # by an edit that left nothing
        changes = [(uri, 0, "", " "), (uri, 0, " ", "")]
    for changed_uri, start, old, new in changes:
        editor.replace(changed_uri, start, start + len(old), new)


def _shown(editor: ScriptedEditor, uri: str, offer: ShownEdit) -> str:
    text = editor.texts[uri]
    line = text.count("\n", 0, offer.start) + 1
    return f"line {line}, {text[offer.start : offer.end]!r} becomes {offer.text!r}"


def _say(*parts: str) -> None:
    print(" ".join(["       ", *parts, "\n"]), end="", file=sys.stderr, flush=True)  # in one piece, beside the log


def delta_chrf(old: str, new: str, expected: str) -> float:
    """F2 of the character n-grams (1 to 6) that a change adds and removes, against those of the wanted change."""
    shares = list[tuple[float, float]]()
    for n in range(1, 7):
        actual, required = (_changes(old, text, n) for text in (new, expected))
        if required:
            common = (actual & required).total()
            shares.append((common / max(1, actual.total()), common / required.total()))
    if not shares:
        return float(new == old)
    precision, recall = map(statistics.fmean, zip(*shares, strict=True))
    return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def _changes(old: str, new: str, n: int) -> Counter[tuple[str, bool]]:
    counts = Counter(new[start : start + n] for start in range(len(new) - n + 1))
    counts.subtract(old[start : start + n] for start in range(len(old) - n + 1))
    return Counter({(gram, count > 0): abs(count) for gram, count in counts.items() if count})


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Plays the scenarios. Raises BenchError, OSError, KeyError or ValueError."""
    scenarios = [Scenario.parse(file) for file in sorted(args.scenarios.glob("*.txtar"))]
    if not scenarios:
        raise BenchError(f"{args.scenarios} has no scenarios (*.txtar)")
    if args.recorded and not args.edit_model:
        raise BenchError("--recorded needs --edit-model, whose answers to play")
    model = RecordedModel(args.edit_model or "off", {})
    if args.recorded:
        model = RecordedModel.read(args.recorded, model.name)
    played: list[PlayedScenario] = []
    num_histories = max(len(scenario.history) for scenario in scenarios)
    folders = [_ROOT, *(_HISTORY.format(index) for index in range(num_histories))]
    with model.serve() as url, tempfile.TemporaryDirectory(prefix="ils-") as folder:
        kind = edit_prompts.guess_kind("auto", model.name) or "auto"
        edit_model = {"model": url if args.recorded else model.name, "kind": kind}
        fill_model = args.model or EMBEDDED
        options = {"statistics": "off", "deadlineMs": DEADLINES_MS, "model": fill_model, "nextEdit": edit_model}
        with ScriptedEditor(Path(folder), options, folders, "debug" if args.verbose else "warning") as editor:
            editor.wait_until_ready()
            for scenario in scenarios:
                for cursor in scenario.cursors:
                    fills = args.model is not None
                    played.append(play(editor, scenario, cursor, fills=fills, is_verbose=args.verbose))
                    print(f"{played[-1]}\n", end="", file=sys.stderr, flush=True)
    return {"model": args.model, "edit_model": args.edit_model, **_figures(played)}


def _figures(played: list[PlayedScenario]) -> dict[str, Any]:
    """A share of no scenarios is 1."""
    edits = [result for result in played if result.scenario.expected]
    silent = [result for result in played if not result.scenario.expected]
    delta = statistics.fmean(result.delta_chrf for result in edits) if edits else 0.0
    offered_share = statistics.fmean(bool(result.offers) for result in edits) if edits else 1.0
    quiet = statistics.fmean(not result.offers for result in silent) if silent else 1.0
    figures = {"delta_chrf": delta, "shown": offered_share, "quiet": quiet}
    figures["score"] = delta * statistics.harmonic_mean([offered_share, quiet])
    sums = {name: round(figure, 4) for name, figure in figures.items()}
    first_ms = percentiles([result.first_ms for result in played])
    return {"edits": len(edits), "silent": len(silent), **sums, "ms": first_ms}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenarios", type=Path, metavar="FOLDER", help="the scenarios (*.txtar)")
    parser.add_argument("--model", metavar="NAME", help="the fill model (default: none, next edits alone)")
    parser.add_argument("--edit-model", metavar="NAME", help="an edit model too: its name, file or server's URL")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="play the edit model's answers from this file")
    parser.add_argument("--verbose", action="store_true", help="show each offer, and what was dropped and why")

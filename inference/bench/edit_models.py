"""What an edit model's rewrites are worth, raw and as the server offers them.

Plays scenarios of cursortab.nvim's next-edit harness (.txtar) in a language server. It makes the edits of a scenario's
history, asks at its cursor, and takes each offer, until none comes. With `--recorded`, a small HTTP server answers for
the model with what it said when others asked it: JSON lines with `scenario`, `model`, `prompt` and `text`. Then a
rewrite applies to the lines that are still those of the recording, and the raw figures are those of the whole rewrites.

score is the mean deltaChrF (0 to 1) over the scenarios that want an edit; `quiet` the share without an offer of those
that want none, at each of their cursors.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from inference.bench.next_edit import DEADLINES
from inference.bench.server_editor import ScriptedEditor, offset_of
from inference.messages import Hunk
from inference.models import edit_prompts
from inference.models.catalogue import EMBEDDED

_MAX_OFFERS = 24
_ROOT = "file:///project"
_REGION = re.compile(
    r"(?:<<<<<<< CURRENT\n(?P<zeta2>.*)=======\n<\[fim-middle\]>"
    r"|<\|editable_region_start\|>\n(?P<zeta>.*)<\|editable_region_end\|>.*"
    r"|<\|file_sep\|>current/[^\n]*\n(?P<sweep>.*)<\|file_sep\|>updated/[^\n]*\n(?P<written>.*))\Z",
    re.DOTALL,
)
_MARKS = re.compile(r"<\|editable_region_start\|>\n|<\|user_cursor\|>|<\|user_cursor_is_here\|>|<\|cursor\|>")


@dataclass(frozen=True)
class Scenario:
    """A file, the user's last changes without their lines, and the wanted text; None: nothing should be offered.

    `cursors` are offsets into `text`.
    """

    name: str
    language: str
    path: str
    text: str
    is_modified: bool
    cursors: tuple[int, ...]
    history: tuple[Hunk, ...]
    expected: str | None

    @classmethod
    def parse(cls, file: Path) -> "Scenario":
        """Raises OSError, KeyError or ValueError."""
        head, *sections = re.split(r"^-- ([\w.]+) --\n", file.read_text("utf-8"), flags=re.MULTILINE)
        parts = {name: text.rstrip("\n") for name, text in zip(sections[::2], sections[1::2], strict=True)}
        fields = dict(re.findall(r"^([a-z-]+|viewport\w+): (.*)$", head, re.MULTILINE))
        places = re.findall(r"(\d+):(\d+)", f"{fields['row']}:{fields['col']},{fields.get('cursor-positions', '')}")
        text = parts["buffer.txt"]
        return cls(
            file.stem,
            fields["language"],
            fields["file"],
            text,
            fields.get("modified") != "false",
            tuple(offset_of(text, int(row) - 1, int(column)) for row, column in places),
            tuple(_history(parts.get("history", ""))),
            None if "suppress" in file.stem else parts["expected"],
        )


def _history(text: str) -> Iterator[Hunk]:
    for entry in text.split("<|file|> ")[1:]:
        path, _, body = entry.partition("\n")
        old, _, new = body.partition("<|new|>\n")
        yield Hunk(0, old.removeprefix("<|old|>\n"), new.removesuffix("\n") + "\n", path.strip())


def _region(prompt: str) -> tuple[str, str]:
    """The region that a prompt asks to rewrite, and the start of the rewrite, if it has that. Raises ValueError."""
    match = _REGION.search(prompt)
    if match is None:
        raise ValueError(f"a prompt of no known kind: {prompt[-80:]!r}")
    return _MARKS.sub("", match["zeta2"] or match["zeta"] or match["sweep"]), match["written"] or ""


@dataclass(frozen=True)
class Rewrite:
    """What a model once answered: the region of its prompt, and that region rewritten."""

    current: str
    new: str

    @classmethod
    def from_recording(cls, prompt: str, answer: str) -> "Rewrite":
        """Raises ValueError for a prompt of no known kind."""
        current, output_prefix = _region(prompt)
        new = output_prefix + _MARKS.sub("", answer)
        return cls(current, new.rstrip("\n") + "\n" if answer.strip() else current)

    def apply_to(self, region: str) -> str:
        """Another region with those changes of this one whose lines have no other words there."""
        old, new, lines = (text.splitlines(keepends=True) for text in (self.current, self.new, region))
        same = SequenceMatcher(None, old, lines, autojunk=False).get_matching_blocks()
        line_map = {block.a + n: block.b + n for block in same for n in range(block.size)}
        for tag, i, j, k, m in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
            start = line_map[i - 1] + 1 if i - 1 in line_map else line_map.get(i, None if i else 0)
            end = (
                line_map[j - 1] + 1
                if j - 1 in line_map and j > i
                else line_map.get(j, len(lines) if j == len(old) else None)
            )
            if tag == "equal" or start is None or end is None or end < start:
                continue
            words = set(re.findall(r"\w+", "".join(old[i:j] + new[k:m])))
            if words.issuperset(re.findall(r"\w+", "".join(lines[start:end]))):
                lines[start:end] = new[k:m]
        return "".join(lines)


@dataclass
class RecordedModel:
    """An HTTP server that answers one recorded rewrite after the other, and then with the region as it is."""

    name: str
    rewrites: list[Rewrite] = field(default_factory=list)

    def complete(self, prompt: str) -> str:
        """The answer to a prompt. Raises ValueError."""
        current, output_prefix = _region(prompt)
        return (self.rewrites.pop(0).apply_to(current) if self.rewrites else current).removeprefix(output_prefix)

    @contextmanager
    def served(self) -> Iterator[str]:
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


def play(editor: ScriptedEditor, scenario: Scenario, cursor: int) -> str:
    """Plays a scenario like a user who takes every offer; the text once none comes.

    First its history happens: in the file where its result stands there, else in a file of its own.
    """
    uri, text = f"{_ROOT}/{scenario.path}", scenario.text
    file_changes = list[tuple[int, str, str]]()
    other_changes = list[Hunk]()
    for change in reversed(scenario.history):
        old = change.old.removesuffix("\n")
        new = change.new.removesuffix("\n")
        if new and new in text:
            offsets = (match.start() for match in re.finditer(re.escape(new), text))
            start = min(offsets, key=lambda offset: abs(offset - cursor))
            file_changes.insert(0, (start, old, new))
            text = text[:start] + old + text[start + len(new) :]
        else:
            other_changes.insert(0, change)
    for index, change in enumerate(other_changes):
        other_uri = f"file:///history{index}/{change.path}"
        editor.open(other_uri, change.old, scenario.language)
        editor.replace(other_uri, 0, len(change.old), change.new)
    editor.open(uri, text, scenario.language)
    for start, old, new in file_changes:
        editor.replace(uri, start, start + len(old), new)
    if scenario.is_modified and not scenario.history:  # by an edit that left nothing
        editor.replace(uri, 0, 0, " ")
        editor.replace(uri, 0, 1, "")
    editor.take_offers(uri, cursor, _MAX_OFFERS)
    text = editor.texts[uri]
    editor.close_all()
    return text


def delta_chrf(before: str, after: str, expected: str) -> float:
    """F2 of the character n-grams (1 to 6) that a change adds and removes, against those of the wanted change."""
    precisions, recalls = [], []
    for n in range(1, 7):
        actual = _changes(before, after, n)
        needed = _changes(before, expected, n)
        if needed:
            common = (actual & needed).total()
            precisions.append(common / actual.total() if actual else 0.0)
            recalls.append(common / needed.total())
    if not recalls:
        return float(after == before)
    precision = statistics.fmean(precisions)
    recall = statistics.fmean(recalls)
    return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def _changes(old: str, new: str, n: int) -> Counter[tuple[str, bool]]:
    old_grams, new_grams = (
        Counter(text[start : start + n] for start in range(len(text) - n + 1)) for text in (old, new)
    )
    added = {(gram, True): count for gram, count in (new_grams - old_grams).items()}
    return Counter(added | {(gram, False): count for gram, count in (old_grams - new_grams).items()})


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Plays the scenarios. Raises BenchError, OSError or ValueError."""
    scenarios = [Scenario.parse(file) for file in sorted(args.scenarios.glob("*.txtar"))]
    recorded = _recorded(args.recorded, args.model) if args.recorded else {}
    model = RecordedModel(args.model)
    texts: dict[str, list[str]] = {scenario.name: [] for scenario in scenarios}
    folders = [
        _ROOT,
        *(f"file:///history{index}" for index in range(max(len(scenario.history) for scenario in scenarios))),
    ]
    with model.served() as url, tempfile.TemporaryDirectory(prefix="ils-") as folder:
        kind = edit_prompts.kind_of(args.kind, args.model) or args.kind
        edit_model = {"model": url, "kind": kind} if recorded else {"model": args.model, "kind": args.kind}
        options = {"statistics": "off", "deadlineMs": DEADLINES, "model": EMBEDDED, "nextEdit": edit_model}
        with ScriptedEditor(Path(folder), options, folders) as editor:
            for scenario in scenarios:
                for cursor in scenario.cursors:
                    model.rewrites = [*recorded.get(scenario.name, ())]
                    texts[scenario.name].append(play(editor, scenario, cursor))
                print(f"{_score(scenario, texts[scenario.name]):.3f} {scenario.name}", file=sys.stderr, flush=True)
    scores = _figures(scenarios, texts)
    if recorded:
        raw = _figures(
            scenarios,
            {scenario.name: [_whole(scenario.text, recorded.get(scenario.name, []))] for scenario in scenarios},
        )
        scores |= {f"raw_{name}": value for name, value in raw.items()}
    return scores


def _recorded(file: Path, model: str) -> dict[str, list[Rewrite]]:
    """A model's answers by scenario. Raises OSError, KeyError or ValueError, also if there is none."""
    rewrites = defaultdict[str, list[Rewrite]](list)
    with file.open(encoding="utf-8") as lines:
        for answer in map(json.loads, lines):
            if answer["model"] == model:
                rewrites[answer["scenario"]].append(Rewrite.from_recording(answer["prompt"], answer["text"]))
    if not rewrites:
        raise ValueError(f"{file} has no answers of {model}")
    return rewrites


def _whole(text: str, rewrites: Sequence[Rewrite]) -> str:
    """A text with all of each rewrite whose region is there."""
    for rewrite in rewrites:
        text = text.replace(rewrite.current.rstrip("\n"), rewrite.new.rstrip("\n"), 1)
    return text


def _score(scenario: Scenario, texts: Sequence[str]) -> float:
    if scenario.expected is None:
        return float(all(text == scenario.text for text in texts))
    return delta_chrf(scenario.text, texts[0].rstrip("\n"), scenario.expected)


def _figures(scenarios: Sequence[Scenario], texts: dict[str, list[str]]) -> dict[str, float]:
    scores: dict[str, list[float]] = {"score": [], "quiet": []}
    for scenario in scenarios:
        scores["quiet" if scenario.expected is None else "score"].append(_score(scenario, texts[scenario.name]))
    return {name: round(statistics.fmean(values), 4) if values else 0.0 for name, values in scores.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenarios", type=Path, required=True, metavar="FOLDER", help="scenarios (*.txtar)")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="answers to play; else the model is asked")
    parser.add_argument("--model", required=True, help="whose answers; without --recorded a file or a server's URL")
    parser.add_argument("--kind", default="auto", metavar="KIND", help="its prompt (default: its name says)")

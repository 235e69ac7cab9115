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

_MOST_OFFERS = 24
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
    wanted: str | None

    @classmethod
    def read(cls, file: Path) -> "Scenario":
        """Raises OSError, KeyError or ValueError."""
        head, *sections = re.split(r"^-- ([\w.]+) --\n", file.read_text("utf-8"), flags=re.MULTILINE)
        parts = {name: text.rstrip("\n") for name, text in zip(sections[::2], sections[1::2], strict=True)}
        found = dict(re.findall(r"^([a-z-]+|viewport\w+): (.*)$", head, re.MULTILINE))
        places = re.findall(r"(\d+):(\d+)", f"{found['row']}:{found['col']},{found.get('cursor-positions', '')}")
        text = parts["buffer.txt"]
        return cls(
            file.stem,
            found["language"],
            found["file"],
            text,
            found.get("modified") != "false",
            tuple(offset_of(text, int(row) - 1, int(column)) for row, column in places),
            tuple(_history(parts.get("history", ""))),
            None if "suppress" in file.stem else parts["expected"],
        )


def _history(text: str) -> Iterator[Hunk]:
    for entry in text.split("<|file|> ")[1:]:
        path, _, rest = entry.partition("\n")
        old, _, new = rest.partition("<|new|>\n")
        yield Hunk(0, old.removeprefix("<|old|>\n"), new.removesuffix("\n") + "\n", path.strip())


def _region(prompt: str) -> tuple[str, str]:
    """The region that a prompt asks to rewrite, and the start of the rewrite, if it has that. Raises ValueError."""
    found = _REGION.search(prompt)
    if found is None:
        raise ValueError(f"a prompt of no known kind: {prompt[-80:]!r}")
    return _MARKS.sub("", found["zeta2"] or found["zeta"] or found["sweep"]), found["written"] or ""


@dataclass(frozen=True)
class Rewrite:
    """What a model once answered: the region of its prompt, and that region rewritten."""

    now: str
    new: str

    @classmethod
    def of(cls, prompt: str, answer: str) -> "Rewrite":
        """Raises ValueError for a prompt of no known kind."""
        now, begun = _region(prompt)
        new = begun + _MARKS.sub("", answer)
        return cls(now, new.rstrip("\n") + "\n" if answer.strip() else now)

    def on(self, region: str) -> str:
        """Another region with those changes of this one whose lines have no other words there."""
        old, new, lines = (text.splitlines(keepends=True) for text in (self.now, self.new, region))
        same = SequenceMatcher(None, old, lines, autojunk=False).get_matching_blocks()
        where = {block.a + n: block.b + n for block in same for n in range(block.size)}
        for tag, i, j, k, m in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
            start = where[i - 1] + 1 if i - 1 in where else where.get(i, None if i else 0)
            end = where[j - 1] + 1 if j - 1 in where and j > i else where.get(j, len(lines) if j == len(old) else None)
            if tag == "equal" or start is None or end is None or end < start:
                continue
            known = set(re.findall(r"\w+", "".join(old[i:j] + new[k:m])))
            if known.issuperset(re.findall(r"\w+", "".join(lines[start:end]))):
                lines[start:end] = new[k:m]
        return "".join(lines)


@dataclass
class RecordedModel:
    """An HTTP server that answers one recorded rewrite after the other, and then with the region as it is."""

    name: str
    left: list[Rewrite] = field(default_factory=list)

    def complete(self, prompt: str) -> str:
        """The answer to a prompt. Raises ValueError."""
        now, begun = _region(prompt)
        return (self.left.pop(0).on(now) if self.left else now).removeprefix(begun)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Its URL, while it is open."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send({"data": [{"id": model.name}]})

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._send({"choices": [{"text": model.complete(asked["prompt"]), "finish_reason": "stop"}]})

            def _send(self, found: object) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

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
    here = list[tuple[int, str, str]]()
    beside = list[Hunk]()
    for change in reversed(scenario.history):
        old = change.old.removesuffix("\n")
        new = change.new.removesuffix("\n")
        if new and new in text:
            places = (match.start() for match in re.finditer(re.escape(new), text))
            start = min(places, key=lambda at: abs(at - cursor))
            here.insert(0, (start, old, new))
            text = text[:start] + old + text[start + len(new) :]
        else:
            beside.insert(0, change)
    for number, change in enumerate(beside):
        other = f"file:///history{number}/{change.path}"
        editor.open(other, change.old, scenario.language)
        editor.replace(other, 0, len(change.old), change.new)
    editor.open(uri, text, scenario.language)
    for start, old, new in here:
        editor.replace(uri, start, start + len(old), new)
    if scenario.is_modified and not scenario.history:  # by an edit that left nothing
        editor.replace(uri, 0, 0, " ")
        editor.replace(uri, 0, 1, "")
    editor.take_offers(uri, cursor, _MOST_OFFERS)
    text = editor.texts[uri]
    editor.close_all()
    return text


def delta_chrf(before: str, after: str, wanted: str) -> float:
    """F2 of the character n-grams (1 to 6) that a change adds and removes, against those of the wanted change."""
    precisions, recalls = [], []
    for n in range(1, 7):
        made = _changes(before, after, n)
        needed = _changes(before, wanted, n)
        if needed:
            common = (made & needed).total()
            precisions.append(common / made.total() if made else 0.0)
            recalls.append(common / needed.total())
    if not recalls:
        return float(after == before)
    precision = statistics.fmean(precisions)
    recall = statistics.fmean(recalls)
    return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def _changes(old: str, new: str, n: int) -> Counter[tuple[str, bool]]:
    one, other = (Counter(text[at : at + n] for at in range(len(text) - n + 1)) for text in (old, new))
    added = {(gram, True): count for gram, count in (other - one).items()}
    return Counter(added | {(gram, False): count for gram, count in (one - other).items()})


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Plays the scenarios. Raises BenchError, OSError or ValueError."""
    scenarios = [Scenario.read(file) for file in sorted(args.scenarios.glob("*.txtar"))]
    recorded = _recorded(args.recorded, args.model) if args.recorded else {}
    model = RecordedModel(args.model)
    texts: dict[str, list[str]] = {one.name: [] for one in scenarios}
    folders = [_ROOT, *(f"file:///history{number}" for number in range(max(len(one.history) for one in scenarios)))]
    with model.served() as url, tempfile.TemporaryDirectory(prefix="ils-") as folder:
        kind = edit_prompts.kind_of(args.kind, args.model) or args.kind
        asked = {"model": url, "kind": kind} if recorded else {"model": args.model, "kind": args.kind}
        options = {"statistics": "off", "deadlineMs": DEADLINES, "model": EMBEDDED, "nextEdit": asked}
        with ScriptedEditor(Path(folder), options, folders) as editor:
            for scenario in scenarios:
                for cursor in scenario.cursors:
                    model.left = [*recorded.get(scenario.name, ())]
                    texts[scenario.name].append(play(editor, scenario, cursor))
                print(f"{_score(scenario, texts[scenario.name]):.3f} {scenario.name}", file=sys.stderr, flush=True)
    found = _figures(scenarios, texts)
    if recorded:
        raw = _figures(scenarios, {one.name: [_whole(one.text, recorded.get(one.name, []))] for one in scenarios})
        found |= {f"raw_{name}": value for name, value in raw.items()}
    return found


def _recorded(file: Path, model: str) -> dict[str, list[Rewrite]]:
    """A model's answers by scenario. Raises OSError, KeyError or ValueError, also if there is none."""
    found = defaultdict[str, list[Rewrite]](list)
    with file.open(encoding="utf-8") as lines:
        for one in map(json.loads, lines):
            if one["model"] == model:
                found[one["scenario"]].append(Rewrite.of(one["prompt"], one["text"]))
    if not found:
        raise ValueError(f"{file} has no answers of {model}")
    return found


def _whole(text: str, rewrites: Sequence[Rewrite]) -> str:
    """A text with all of each rewrite whose region is there."""
    for one in rewrites:
        text = text.replace(one.now.rstrip("\n"), one.new.rstrip("\n"), 1)
    return text


def _score(scenario: Scenario, texts: Sequence[str]) -> float:
    if scenario.wanted is None:
        return float(all(text == scenario.text for text in texts))
    return delta_chrf(scenario.text, texts[0].rstrip("\n"), scenario.wanted)


def _figures(scenarios: Sequence[Scenario], texts: dict[str, list[str]]) -> dict[str, float]:
    scores: dict[str, list[float]] = {"score": [], "quiet": []}
    for one in scenarios:
        scores["quiet" if one.wanted is None else "score"].append(_score(one, texts[one.name]))
    return {name: round(statistics.fmean(values), 4) if values else 0.0 for name, values in scores.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenarios", type=Path, required=True, metavar="FOLDER", help="scenarios (*.txtar)")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="answers to play; else the model is asked")
    parser.add_argument("--model", required=True, help="whose answers; without --recorded a file or a server's URL")
    parser.add_argument("--kind", default="auto", metavar="KIND", help="its prompt (default: its name says)")

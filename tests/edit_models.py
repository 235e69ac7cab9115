"""Edit models of tests: recorded scenarios of cursortab.nvim's next-edit harness, and a server."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.http_server import HttpRequest, HttpServer, response

_FOLDER = Path(__file__).parent / "data" / "edit_models"
RECORDED: list[dict[str, Any]] = [json.loads(line) for line in (_FOLDER / "recorded.jsonl").read_text().splitlines()]
_MARKS = re.compile(r"<\|editable_region_start\|>\n|<\|user_cursor\|>|<\|user_cursor_is_here\|>|<\|cursor\|>")


@dataclass(frozen=True)
class Scenario:
    """A file, the user's last changes (each a snippet before and after), and the text that is wanted in the end.

    `wanted` None: nothing should be offered. `cursors` are offsets into `text`.
    """

    name: str
    language: str
    path: str
    text: str
    cursors: tuple[int, ...]
    history: tuple[tuple[str, str], ...]
    wanted: str | None

    @classmethod
    def read(cls, file: Path) -> "Scenario":
        head, *sections = re.split(r"^-- ([\w.]+) --\n", file.read_text(), flags=re.MULTILINE)
        parts = {name: text.rstrip("\n") for name, text in zip(sections[::2], sections[1::2], strict=True)}
        found = dict(re.findall(r"^([a-z-]+|viewport\w+): (.*)$", head, re.MULTILINE))
        places = [f"{found['row']}:{found['col']}", *found.get("cursor-positions", "").split(",")]
        text = parts["buffer.txt"]
        return cls(
            file.stem,
            found["language"],
            found["file"],
            text,
            tuple(_cursor(text, *map(int, place.split(":"))) for place in places if place.strip()),
            tuple(_history(parts.get("history", ""))),
            None if "suppress" in file.stem else parts["expected"],
        )


def scenarios() -> dict[str, Scenario]:
    """All that were recorded, by their names."""
    return {file.stem: Scenario.read(file) for file in sorted(_FOLDER.glob("*.txtar"))}


def _cursor(text: str, row: int, column: int) -> int:
    """The offset of a place: rows from 1, columns from 0, as in the recorded prompts."""
    lines = text.split("\n")[:row]
    return sum(len(line) + 1 for line in lines[:-1]) + min(column, len(lines[-1]))


def _history(text: str) -> Iterator[tuple[str, str]]:
    """All changes are of files with the scenario's own path."""
    for entry in text.split("<|file|> ")[1:]:
        old, _, new = entry.partition("\n")[2].partition("<|new|>\n")
        yield old.removeprefix("<|old|>\n"), new.removesuffix("\n") + "\n"


def rewrite(model: str, scenario: Scenario) -> str:
    """What a model once made of a scenario's file: its answer rewrote all of it."""
    one = next(one for one in RECORDED if (one["model"], one["scenario"]) == (model, scenario.name))
    written = one["prompt"].rpartition("<|file_sep|>updated/")[2] if "sweep" in model else ""
    return (written.partition("\n")[2] + _MARKS.sub("", one["text"])).rstrip("\n")


def said(text: str, reason: str = "stop") -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": reason}]}


@dataclass
class EditServer(HttpServer):
    """Answers each prompt with `answer`; refuses those that ask for probabilities unless it `tells_chances`."""

    answer: Any = None
    tells_chances: bool = True
    names: tuple[str, ...] = ("zeta-2-q4",)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.path == "/v1/models":
            writer.write(response(200, {"data": [{"id": name} for name in self.names]}))
            return
        self.asked.append(request.json)
        if self.answer is None:
            await self.unless_gone(reader, self.hold.wait())
        if "logprobs" in request.json and not self.tells_chances:
            writer.write(response(400, {"error": {"message": "logprobs is not supported"}}))
            return
        writer.write(response(200, self.answer))

"""Sessions of an editor with the scripted worker: documents and edits of the fixtures, requests drawn by seed."""

import asyncio
import random
import re
import tempfile
from itertools import count as count_from
from pathlib import Path
from typing import Any

from inference.bench import infilling_tasks
from tests import reference, workers
from tests.e2e.raw_client import Framed, RawClient, between, capable
from tests.e2e.user import User
from tests.lsp_server.fixtures import cases
from tests.replay.ruled_worker import RuledWorker

TESTS = Path(__file__).parents[1]
_EDITORS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (capable(window=None), {}),
    (capable(window=None, general__positionEncodings=["utf-8"]), {"completion": "always"}),
    (
        capable(window=None, general__positionEncodings=["utf-32"], textDocument__inlineCompletion=None),
        {"prefetch": False},
    ),
    (
        capable(window=None, experimental__infillNextEdits=True, textDocument__inlineCompletion=None),
        {"suggestions": "eager", "candidates": {"invoked": 1}},
    ),
)
"""Capabilities and settings of the editors that take turns."""
_COMMANDS = ("fillHole", "fillFunction", "fillFile", "writeBody", "rework", "repair")
_numbers = count_from(1)
_MARK = re.compile(r"«([^«»]*)→([^«»]*)»|⟦([^⟦⟧]*)→[^⟦⟧]*⟧", re.DOTALL)
Session = tuple[str, str, str]
"""What kind, the language, and a text with the fixtures' signs."""


class Editor(RawClient):
    """One server process and its worker. `record` gets every answer, and what was shown and edited meanwhile."""

    worker: RuledWorker

    def __init__(self, channel: Framed) -> None:
        super().__init__(channel)
        self.record: list[Any] = []
        self._heard = 0

    def begin(self, user: User) -> None:
        """From now on edits are for this user's document."""

        def put_in(params: Any) -> dict[str, Any]:
            self.record.append(["edit", params["edit"]])
            return user.put_in(params)

        self.answers["workspace/applyEdit"] = put_in
        self.record, self.worker.asked = [], []

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        """The reply, which may be an error."""
        key = next(_numbers)
        self.request(key, method, params)
        return await self.reply(key)

    async def note(self, what: str, method: str, params: Any) -> Any:
        """Asks, records the answer, and waits until the server is at rest."""
        answer = await self.answer(method, params)
        self.record.append([what, _ids_left_out(answer.get("result", answer.get("error")))])
        await self.rest()
        shown = self.told("window/showMessage", self._heard)
        self._heard = len(self.notes)
        self.record += [["message", each] for each in shown]
        return answer.get("result")

    async def rest(self) -> None:
        """Until the server has handled everything, and has asked the worker whatever it wanted to ask."""
        quiet, before = 0, -1
        while quiet < 2:
            await self.answer("no/such/method", None)
            await asyncio.sleep(0.01)
            now = len(self.worker.asked) + self.worker.unanswered
            quiet, before = (quiet + 1 if now == before else 0), now


def _ids_left_out(value: Any) -> Any:
    """An answer without what differs each time or is the server's own: ids of suggestions, and an action's data."""
    if isinstance(value, list):
        return [_ids_left_out(item) for item in value]
    if not isinstance(value, dict):
        return value
    if str(value.get("command", "")).endswith("didAccept"):
        value = {**value, "arguments": ["ID", *value["arguments"][1:]]}
    return {key: _ids_left_out(item) for key, item in value.items() if key != "data"}


def drawn(count: int, seed: int = 1) -> list[Session]:
    """As many sessions, always the same: three of five fill holes, one edits, one types."""
    by_chance = random.Random(seed)
    filled = _texts_of(TESTS / "lsp_server/holes/fixtures")
    edited = [case for case in _texts_of(TESTS / "lsp_server/next_edit/fixtures") if "«" in case[1]]
    tasks = infilling_tasks.read_tasks(TESTS / "data" / "held_out.jsonl.gz")
    typed = [("python", f"{task.prompt}‸{task.canonical_solution}\n{task.suffix}") for task in tasks]
    kinds = {"fill": filled, "edit": edited, "type": [text for text in typed if len(text[1]) < 4000]}
    order = ("fill", "edit", "fill", "type", "fill")
    return [(kind, *by_chance.choice(kinds[kind])) for kind in (order[number % 5] for number in range(count))]


def _texts_of(folder: Path) -> list[tuple[str, str]]:
    """(language, text) of every case in fixture files, with the signs of cursors and holes."""
    files = sorted(folder.glob("*.txt"))
    found = ((file, parameters.values[0]) for file in files for parameters in cases(file, "---", "+++"))
    return [(file.stem.removesuffix("_markers"), case.text) for file, case in found]


async def record(checkout: Path, count: int) -> dict[str, Any]:
    """What each session was answered, and what the worker was asked in it, by the session's name."""
    found: dict[str, Any] = {}
    sessions = drawn(count)
    with tempfile.TemporaryDirectory(prefix="replay-", dir="/tmp") as folder:
        runtime = Path(folder) / "run"
        variables = {"INFILL_LS_STATE_DIR": f"{folder}/state", "HF_HOME": f"{folder}/models"}
        variables |= {"XDG_CONFIG_HOME": f"{folder}/config", "INFILL_LS_KEEP_SUFFIX": "0"}
        environment = {**variables, **workers.environment(runtime)}
        infill_ls = [str(checkout / ".venv/bin/python"), "-P", "-m", "lsp_server.cli"]
        where = await asyncio.create_subprocess_exec(
            *infill_ls, "worker", "--where", env=environment, stdout=asyncio.subprocess.PIPE, cwd=checkout
        )
        worker = RuledWorker()
        await worker.listen(Path((await where.communicate())[0].decode().strip()))
        for turn, (capabilities, options) in enumerate(_EDITORS):
            options = {"debounceMs": 0, "deadlineMs": {"automatic": 60_000, "invoked": 60_000}, **options}
            more: dict[str, Any] = {"command": [*infill_ls, "serve", "--stdio"], "capabilities": capabilities}
            editor = await Editor.start(runtime, options, **more, **variables)
            editor.worker = worker
            for number in range(turn, count, len(_EDITORS)):
                name = f"session {number}, {sessions[number][0]}, {sessions[number][1]}"
                await _play(editor, number, *sessions[number])
                found[name] = {"answers": editor.record, "asked": worker.asked}
            found[f"exit status {turn}"] = await editor.quit()
        for number in range(turn, count, 10):
            found[f"fill {number}"] = await _fill(infill_ls, environment, Path(folder), *sessions[number][1:])
    return found


async def _play(editor: Editor, number: int, kind: str, language: str, text: str) -> None:
    by_chance = random.Random(number)
    uri = f"file:///project/{number}/main.{language}"
    if kind == "edit":
        old = _MARK.sub(lambda mark: mark[3] if mark[1] is None else mark[1], text)
        user = User(editor, old, language, uri=uri)
        editor.begin(user)
        await editor.rest()
        await _edit(editor, user, text)
    else:
        text = re.sub(r"⟦(?:marker|body|block)⟧", "???", text)
        text = text.replace("⟦", "").replace("⟧", "")
        user = User(editor, text, language, uri=uri)
        editor.begin(user)
        user.cursor = user.cursor if "‸" in text else by_chance.randrange(len(text) + 1)
        at = user.cursor
        await _complete(editor, user, invoked=bool(number % 2))
        if kind == "type":
            user.cursor = at
            await _type(editor, user, "x = f(a" if number % 3 else user.text[at : at + 9])
        user.cursor = min(at, len(user.text))
        await _act(editor, user, by_chance)
    user.says("textDocument/didClose")
    await editor.rest()


def _here(user: User, **more: object) -> dict[str, Any]:
    position = reference.position(user.text, user.cursor, user.client.encoding)
    return {"textDocument": {"uri": user.uri}, "position": position, **more}


async def _complete(editor: Editor, user: User, *, invoked: bool) -> None:
    """Asks for ghost text and for the list; takes half of what comes, and asks again behind it."""
    inline = "textDocument/inlineCompletion"
    answer = await editor.note("inline", inline, _here(user, context={"triggerKind": 1 if invoked else 2}))
    await editor.note("list", "textDocument/completion", _here(user, context={"triggerKind": 1}))
    if not answer or not answer["items"]:
        return
    item = answer["items"][0]
    if user.cursor % 3 == 0:
        user.says("infill/didReject", id=user.id(item))
    else:
        user.cursor = user.span(item)[0] + len(item["insertText"])
        user.apply([{"range": item["range"], "newText": item["insertText"]}])
        await editor.note("taken", "workspace/executeCommand", item["command"])
    await editor.note("inline", inline, _here(user, context={"triggerKind": 2}))


async def _type(editor: Editor, user: User, text: str) -> None:
    """Types with a request for each character, the first of them while the worker has not answered yet."""
    editor.worker.may_answer.clear()
    asked = []
    for number, character in enumerate(text):
        user.type(character)
        asked.append(user.ask())
        if number == 2:
            await editor.rest()
            editor.worker.may_answer.set()
        if number >= 2:
            await editor.reply(asked[-1])
            await editor.rest()
    editor.worker.may_answer.set()
    for key in asked:
        reply = await editor.reply(key)
        texts = [item["insertText"] for item in reply["result"]["items"]] if "result" in reply else reply["error"]
        editor.record.append(["typed", texts])


async def _act(editor: Editor, user: User, by_chance: random.Random) -> None:
    """Lists the actions at the cursor and for a selection, resolves some, runs a command, undoes and saves."""
    end = min(len(user.text), user.cursor + by_chance.choice((0, 0, 30, 200)))
    span, diagnostics = between(user.place(user.cursor), user.place(end)), []
    if by_chance.random() < 0.3:
        diagnostics = [{"range": span, "message": "is not defined", "severity": 1}]
    document = {"textDocument": {"uri": user.uri}, "range": span}
    actions = await editor.note(
        "actions", "textDocument/codeAction", {**document, "context": {"diagnostics": diagnostics}}
    )
    for action in [action for action in actions or () if "data" in action][:3]:
        await editor.note(action["title"], "codeAction/resolve", action)
    before, command = user.text, by_chance.choice(_COMMANDS)
    argument = {"uri": user.uri, "range": span, "tell": by_chance.random() < 0.5}
    params = {"command": f"infill-ls.{command}", "arguments": [argument]}
    await editor.note(command, "workspace/executeCommand", params)
    user.says("textDocument/didSave")
    if user.text != before:
        user.replace(0, len(user.text), before)
    status = await editor.answer("infill/status", _here(user))
    editor.record.append(["status", {key: status["result"][key] for key in ("off", "grammar", "noHole", "sha256")}])


async def _edit(editor: Editor, user: User, text: str) -> None:
    """Makes the drawn changes, and takes one offered next edit after the other."""
    at, before = 0, 0
    for mark in _MARK.finditer(text):
        at += mark.start() - before
        before = mark.end()
        if mark[1] is None:
            at += len(mark[3])
            continue
        user.replace(at, at + len(mark[1]), mark[2])
        at = user.cursor
    user.cursor = at
    for _ in range(6):
        offered = await editor.note("next edit", "textDocument/copilotInlineEdit", _here(user))
        if not offered or not offered["edits"]:
            break
        edit = offered["edits"][0]
        editor.send({"method": "textDocument/didShowInlineEdit", "params": {"item": edit}})
        user.cursor = reference.offset(user.text, edit["range"]["start"], editor.encoding)
        user.apply([{"range": edit["range"], "newText": edit["text"]}])
        await editor.note("taken", "workspace/executeCommand", edit["command"])


async def _fill(infill_ls: list[str], environment: dict[str, str], folder: Path, language: str, text: str) -> Any:
    """`infill-ls fill` of a file, and what is in it afterwards."""
    file = folder / f"file.{ {'python': 'py', 'typescript': 'ts', 'rust': 'rs'}.get(language, language) }"
    file.write_text(re.sub(r"⟦[^⟦⟧]*⟧|‸|«[^«»]*»", "???", text), encoding="utf-8")
    pipe = asyncio.subprocess.PIPE
    filling = await asyncio.create_subprocess_exec(
        *infill_ls, "fill", str(file), "--write", env=environment, stdout=pipe, stderr=pipe
    )
    told = [re.sub(r"\d+ ms", "", part.decode().replace(str(folder), "")) for part in await filling.communicate()]
    return {"status": filling.returncode, "told": told, "text": file.read_text(encoding="utf-8")}

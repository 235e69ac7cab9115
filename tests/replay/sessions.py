"""Sessions of an editor with the scripted worker: documents and edits of the fixtures, requests drawn by seed."""

import asyncio
import gzip
import json
import os
import random
import re
import tempfile
from pathlib import Path
from typing import Any

from tests.lsp_server.fixtures import cases
from tests.replay.editor import Editor
from tests.replay.worker_protocol import ScriptedWorker

TESTS = Path(__file__).parents[1]
_EDITORS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"experimental": {"infillDrafts": False}, "textDocument": {"inlineCompletion": {}}}, {}),
    ({"general": {"positionEncodings": ["utf-8"]}, "textDocument": {"inlineCompletion": {}}}, {"completion": "always"}),
    ({"general": {"positionEncodings": ["utf-32"]}}, {"prefetch": False}),
    ({"experimental": {"infillNextEdits": True}}, {"confidenceFloor": 0, "candidates": {"invoked": 1}}),
)
"""Capabilities and settings of the editors that take turns."""
_COMMANDS = ("fillHole", "fillFunction", "fillFile", "writeBody", "rework", "repair")
_MARK = re.compile(r"«([^«»]*)→([^«»]*)»|⟦([^⟦⟧]*)→[^⟦⟧]*⟧", re.DOTALL)
Session = tuple[str, str, str]
"""What kind, the language, and a text with the fixtures' signs."""


def drawn(count: int, seed: int = 1) -> list[Session]:
    """As many sessions, always the same: three of five carve, one edits, one types."""
    by_chance = random.Random(seed)
    carved = _texts_of(TESTS / "lsp_server/carve/fixtures")
    edited = [case for case in _texts_of(TESTS / "lsp_server/next_edit/fixtures") if "«" in case[1]]
    with gzip.open(TESTS / "data/held_out.jsonl.gz", "rt") as lines:
        tasks = [json.loads(line) for line in lines]
    typed = [("python", f"{task['prompt']}‸{task['canonical_solution']}\n{task['suffix']}") for task in tasks]
    kinds = {"carve": carved, "edit": edited, "type": [text for text in typed if len(text[1]) < 4000]}
    order = ("carve", "edit", "carve", "type", "carve")
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
        environment = {**os.environ, "INFILL_LS_RUNTIME_DIR": f"{folder}/run", "INFILL_LS_STATE_DIR": f"{folder}/state"}
        environment |= {"HF_HOME": f"{folder}/models", "XDG_CONFIG_HOME": f"{folder}/config"}
        python = checkout / ".venv/bin/python"
        infill_ls = [str(python), "-P", "-m", "lsp_server.cli"]
        where = await asyncio.create_subprocess_exec(
            *infill_ls, "worker", "--where", env=environment, stdout=asyncio.subprocess.PIPE, cwd=checkout
        )
        worker = ScriptedWorker()
        await worker.listen(Path((await where.communicate())[0].decode().strip()))
        for turn, (capabilities, options) in enumerate(_EDITORS):
            capabilities = {**capabilities, **_both(capabilities)}
            options = {"debounceMs": 0, "deadlineMs": {"automatic": 60_000, "invoked": 60_000}, **options}
            asked = {"capabilities": capabilities, "initializationOptions": options}
            editor = await Editor.begin([*infill_ls, "serve", "--stdio"], environment, worker, **asked)
            for number in range(turn, count, len(_EDITORS)):
                name = f"session {number}, {sessions[number][0]}, {sessions[number][1]}"
                editor.record, worker.asked = [], []
                await _play(editor, worker, number, *sessions[number])
                found[name] = {"answers": editor.record, "asked": worker.asked}
            await editor.leave()
        for number in range(turn, count, 10):
            found[f"fill {number}"] = await _fill(infill_ls, environment, Path(folder), *sessions[number][1:])
    return found


def _both(capabilities: dict[str, Any]) -> dict[str, Any]:
    """What every editor can do, in the two sections that the editors also differ in."""
    action = {"dataSupport": True, "resolveSupport": {"properties": ["edit"]}}
    action["codeActionLiteralSupport"] = {"codeActionKind": {"valueSet": ["refactor"]}}
    return {
        "textDocument": {**capabilities.get("textDocument", {}), "codeAction": action},
        "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
    }


async def _play(editor: Editor, worker: ScriptedWorker, number: int, kind: str, language: str, text: str) -> None:
    by_chance = random.Random(number)
    uri = f"file:///project/{number}/main.{language}"
    if kind == "edit":
        await _edit(editor, uri, language, text)
    else:
        text = re.sub(r"⟦(?:marker|body|block)⟧", "???", text)
        text = text.replace("⟦", "").replace("⟧", "")
        at = text.index("‸") if "‸" in text else by_chance.randrange(len(text) + 1)
        editor.open(uri, text.replace("‸", ""), language)
        await _complete(editor, uri, at, invoked=bool(number % 2))
        if kind == "type":
            await _type(editor, worker, uri, at, "x = f(a" if number % 3 else editor.texts[uri][at : at + 9])
        await _act(editor, uri, at, by_chance)
    editor.close(uri)
    await editor.rest()


async def _complete(editor: Editor, uri: str, at: int, *, invoked: bool) -> None:
    """Asks for ghost text and for the list; takes half of what comes, and asks again behind it."""
    here = {"textDocument": {"uri": uri}, "position": editor.place(uri, at)}
    context = {"triggerKind": 1 if invoked else 2}
    answer = await editor.note("inline", "textDocument/inlineCompletion", {**here, "context": context})
    await editor.note("list", "textDocument/completion", {**here, "context": {"triggerKind": 1}})
    if not answer or not answer["items"]:
        return
    item = answer["items"][0]
    suggestion = item["command"]["arguments"][0]
    if at % 3 == 0:
        editor.tell("infill/didReject", {"textDocument": {"uri": uri}, "id": suggestion})
        await editor.note("inline", "textDocument/inlineCompletion", {**here, "context": {"triggerKind": 2}})
        return
    end = editor.offset(uri, item["range"]["start"]) + len(item["insertText"])
    editor.apply(uri, [{"range": item["range"], "newText": item["insertText"]}])
    await editor.note("taken", "workspace/executeCommand", item["command"])
    here["position"] = editor.place(uri, end)
    await editor.note("inline", "textDocument/inlineCompletion", {**here, "context": {"triggerKind": 2}})


async def _type(editor: Editor, worker: ScriptedWorker, uri: str, at: int, text: str) -> None:
    """Types with a request for each character, the first of them while the worker has not answered yet."""
    worker.may_answer.clear()
    asked = []
    for number, character in enumerate(text):
        editor.replace(uri, at + number, at + number, character)
        here = {"textDocument": {"uri": uri}, "position": editor.place(uri, at + number + 1)}
        asked.append(editor.ask_for("textDocument/inlineCompletion", {**here, "context": {"triggerKind": 2}}))
        if number == 2:
            await editor.rest()
            worker.may_answer.set()
        if number >= 2:
            await editor.reply(asked[-1])
            await editor.rest()
    worker.may_answer.set()
    for key in asked:
        editor.record.append(["typed", _texts(await editor.reply(key))])


def _texts(answer: dict[str, Any]) -> Any:
    return [item["insertText"] for item in answer["result"]["items"]] if "result" in answer else answer["error"]


async def _act(editor: Editor, uri: str, at: int, by_chance: random.Random) -> None:
    """Lists the actions at the cursor and for a selection, resolves some, runs a command, undoes and saves."""
    at = min(at, len(editor.texts[uri]))
    end = min(len(editor.texts[uri]), at + by_chance.choice((0, 0, 30, 200)))
    span, diagnostics = editor.range(uri, at, end), []
    if by_chance.random() < 0.3:
        diagnostics = [{"range": span, "message": "is not defined", "severity": 1}]
    document = {"textDocument": {"uri": uri}, "range": span}
    actions = await editor.note(
        "actions", "textDocument/codeAction", {**document, "context": {"diagnostics": diagnostics}}
    )
    for action in [action for action in actions or () if "data" in action][:3]:
        await editor.note(action["title"], "codeAction/resolve", action)
    before, command = editor.texts[uri], by_chance.choice(_COMMANDS)
    argument = {"uri": uri, "range": span, "tell": by_chance.random() < 0.5}
    params = {"command": f"infill-ls.{command}", "arguments": [argument]}
    await editor.note(command, "workspace/executeCommand", params)
    editor.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
    if editor.texts[uri] != before:
        editor.replace(uri, 0, len(editor.texts[uri]), before)
    status = await editor.answer("infill/status", {"textDocument": {"uri": uri}, "position": editor.place(uri, at)})
    editor.record.append(["status", {key: status["result"][key] for key in ("off", "grammar", "noHole", "sha256")}])


async def _edit(editor: Editor, uri: str, language: str, text: str) -> None:
    """Makes the drawn changes, and takes one offered next edit after the other."""
    old = _MARK.sub(lambda mark: mark[3] if mark[1] is None else mark[1], text)
    editor.open(uri, old, language)
    await editor.rest()
    at, before = 0, 0
    for mark in _MARK.finditer(text):
        at += mark.start() - before
        before = mark.end()
        if mark[1] is None:
            at += len(mark[3])
            continue
        editor.replace(uri, at, at + len(mark[1]), mark[2])
        at += len(mark[2])
    here = {"textDocument": {"uri": uri}, "position": editor.place(uri, at)}
    for _ in range(6):
        offered = await editor.note("next edit", "textDocument/copilotInlineEdit", here)
        if not offered or not offered["edits"]:
            break
        edit = offered["edits"][0]
        editor.tell("textDocument/didShowInlineEdit", {"item": edit})
        editor.apply(uri, [{"range": edit["range"], "newText": edit["text"]}])
        await editor.note("taken", "workspace/executeCommand", edit["command"])
        here["position"] = edit["range"]["start"]


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

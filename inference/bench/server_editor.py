"""A scripted editor: types into documents of a real server process, in raw JSON over stdio.

Knows the protocol's messages as JSON, and nothing of the server's code.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.bench import BenchError

SERVER_COMMAND = (sys.executable, "-P", "-m", "lsp_server.cli")
_EXIT_S, _LOADING_S = 60.0, 300.0


def server_environment(runtime: Path) -> dict[str, str]:
    """An environment in which a server finds only the workers of the folder `runtime`."""
    return {**os.environ, "INFILL_LS_RUNTIME_DIR": str(runtime)}


@dataclass(frozen=True)
class ShownEdit:
    """A next edit, or ghost text: `text` for [start, end) of a document; `accept` is the command to run then."""

    start: int
    end: int
    text: str
    accept: dict[str, Any]

    def apply_to(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]


class ScriptedEditor(AbstractContextManager["ScriptedEditor"]):
    """One server process. Use it in a `with` statement; leaving it ends the process.

    `texts` are its documents by their URIs, as `open` and `replace` have left them.
    """

    def __init__(
        self, runtime: Path, options: Mapping[str, Any], folders: Sequence[str] = (), log_level: str = "warning"
    ) -> None:
        """`options` are its settings and `folders` the URIs of its workspace folders; its log goes to our stderr."""
        environment = server_environment(runtime)
        command = [*SERVER_COMMAND, "serve", "--stdio", "--log-level", log_level]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._last_id = 0
        self.texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        can = {"general": {"positionEncodings": ["utf-32"]}}
        opened = [{"uri": uri, "name": uri} for uri in folders] or None
        self.request("initialize", {"capabilities": can, "initializationOptions": options, "workspaceFolders": opened})
        self.notify("initialized", {})

    def __exit__(self, *_: object) -> None:
        self.notify("exit", None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_S)
        self._process.kill()

    def open(self, uri: str, text: str, language: str = "python") -> None:
        self.texts[uri] = text
        self._versions[uri] = 1
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def close_all(self) -> None:
        while self.texts:
            self.notify("textDocument/didClose", {"textDocument": {"uri": self.texts.popitem()[0]}})

    def replace(self, uri: str, start: int, end: int, new: str) -> None:
        text = self.texts[uri]
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        changes = [{"range": {"start": position_of(text, start), "end": position_of(text, end)}, "text": new}]
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})
        self.texts[uri] = text[:start] + new + text[end:]

    def next_edit(self, uri: str, cursor: int) -> ShownEdit | None:
        """The next edit offered at the cursor of a document, if there is one."""
        items = self._request_at("textDocument/copilotInlineEdit", uri, cursor)["edits"]
        return self._offer(uri, items[0], items[0]["text"]) if items else None

    def ghost_text(self, uri: str, cursor: int, *, invoked: bool = False) -> ShownEdit | None:
        """The first inline completion at the cursor of a document, if there is one; `invoked`: the user asks for it."""
        items = self._request_at("textDocument/inlineCompletion", uri, cursor, 1 if invoked else 2)["items"]
        return self._offer(uri, items[0], items[0]["insertText"]) if items else None

    def accept(self, uri: str, offer: ShownEdit) -> int:
        """Accepts an offer for the current text of a document; returns the offset after it."""
        self.replace(uri, offer.start, offer.end, offer.text)
        self.request("workspace/executeCommand", offer.accept)
        return offer.start + len(offer.text)

    def status_at(self, uri: str, cursor: int) -> dict[str, Any]:
        """The server's status, with the report about a position in a document."""
        params = {"textDocument": {"uri": uri}, "position": position_of(self.texts[uri], cursor)}
        status: dict[str, Any] = self.request("infill/status", params)
        return status

    def _offer(self, uri: str, item: dict[str, Any], text: str) -> ShownEdit:
        start, end = (offset_of(self.texts[uri], **item["range"][side]) for side in ("start", "end"))
        return ShownEdit(start, end, text, {name: item["command"][name] for name in ("command", "arguments")})

    def _request_at(self, method: str, uri: str, cursor: int, trigger_kind: int = 2) -> Any:
        document = {"uri": uri, "version": self._versions[uri]}
        position, context = position_of(self.texts[uri], cursor), {"triggerKind": trigger_kind}
        return self.request(method, {"textDocument": document, "position": position, "context": context})

    def wait_until_ready(self) -> None:
        """Waits until the worker has its model. Raises BenchError if it does not get it in time."""
        give_up = time.monotonic() + _LOADING_S
        while (status := self.request("infill/status", None))["state"] not in ("ready", "busy"):
            if status["state"] == "failed" or time.monotonic() > give_up:
                raise BenchError(f"the worker is {status['state']}: {status.get('detail', '')}")
            time.sleep(0.05)

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> Any:
        """The result of a request. Raises BenchError."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while "method" in (reply := self._receive()) or reply["id"] != self._last_id:
            pass
        if "result" not in reply:
            raise BenchError(f"{method}: {reply.get('error')}")
        return reply["result"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        """The next message. Raises BenchError if the server has ended."""
        assert self._process.stdout is not None
        header = self._process.stdout.readline()
        if not header:
            raise BenchError("the server has ended")
        self._process.stdout.readline()
        message: dict[str, Any] = json.loads(self._process.stdout.read(int(header.partition(b":")[2])))
        return message


def position_of(text: str, offset: int) -> dict[str, int]:
    return {"line": text.count("\n", 0, offset), "character": offset - text.rfind("\n", 0, offset) - 1}


def offset_of(text: str, line: int, character: int) -> int:
    """The offset of a line and a character, both from 0. A character after a line's end is that end."""
    *above, last = text.split("\n")[: line + 1]
    return sum(len(line_above) + 1 for line_above in above) + min(character, len(last))

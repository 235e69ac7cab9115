"""A stand-in for an editor: types into documents of a real server process, in raw JSON over stdio.

Knows the protocol's messages as JSON, and nothing of the server's code.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from inference.bench import BenchError

URI = "file:///project/big.py"
SERVER = (sys.executable, "-P", "-m", "lsp_server.cli")
TIMEOUT_S = 60.0


def server_environment(runtime: Path) -> dict[str, str]:
    """An environment in which a server finds only the workers of the folder `runtime`."""
    return {**os.environ, "INFILL_LS_RUNTIME_DIR": str(runtime)}


class ScriptedEditor(AbstractContextManager["ScriptedEditor"]):
    """One server process. Use it in a `with` statement; leaving it ends the process.

    `texts` are its documents by their URIs, as `open` and `replace` have left them.
    """

    def __init__(self, runtime: Path, options: Mapping[str, Any], folders: Sequence[str] = ()) -> None:
        """`options` are its settings and `folders` the URIs of its workspace folders."""
        environment = server_environment(runtime)
        command = [*SERVER, "serve", "--stdio"]
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
            self._process.wait(TIMEOUT_S)
        self._process.kill()

    def open(self, uri: str, text: str, language: str = "python") -> None:
        self.texts[uri] = text
        self._versions[uri] = 1
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def close_all(self) -> None:
        while self.texts:
            self.notify("textDocument/didClose", {"textDocument": {"uri": self.texts.popitem()[0]}})

    def type(self, line: int, character: int, text: str) -> None:
        """Inserts `text` at a position of `URI`, and leaves `texts` alone, so that it takes no time."""
        position = {"line": line, "character": character}
        self._change(URI, {"start": position, "end": position}, text)

    def replace(self, uri: str, start: int, end: int, new: str) -> None:
        """Replaces [start, end) of a document's text."""
        text = self.texts[uri]
        self._change(uri, {"start": position_of(text, start), "end": position_of(text, end)}, new)
        self.texts[uri] = text[:start] + new + text[end:]

    def take_offers(
        self, uri: str, cursor: int, max_offers: int, is_wanted: Callable[[str, str], bool] = lambda *_: True
    ) -> None:
        """Takes the next edits offered at the cursor of a document, and where the last one ends, and so on.

        Ends if there is none, or it is not wanted, by the texts without and with it.
        """
        for _ in range(max_offers):
            text = self.texts[uri]
            document = {"uri": uri, "version": self._versions[uri]}
            params = {"textDocument": document, "position": position_of(text, cursor), "context": {"triggerKind": 2}}
            edits = self.request("textDocument/copilotInlineEdit", params)["edits"]
            if not edits:
                break
            start, end = (offset_of(text, **edits[0]["range"][side]) for side in ("start", "end"))
            new = edits[0]["text"]
            if not is_wanted(text, text[:start] + new + text[end:]):
                break
            self.replace(uri, start, end, new)
            cursor = start + len(new)
            accept = edits[0]["command"]
            self.request("workspace/executeCommand", {name: accept[name] for name in ("command", "arguments")})

    def _change(self, uri: str, lsp_range: dict[str, Any], text: str) -> None:
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        changes = [{"range": lsp_range, "text": text}]
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def complete(self, line: int, character: int) -> str:
        """The text that the first inline completion shows after the cursor, as for an automatic trigger; "": none.

        A completion also includes the text before the cursor from its start column on.
        """
        params = {
            "textDocument": {"uri": URI},
            "position": {"line": line, "character": character},
            "context": {"triggerKind": 2},
        }
        items = self.request("textDocument/inlineCompletion", params)["items"]
        return items[0]["insertText"][character - items[0]["range"]["start"]["character"] :] if items else ""

    def no_op(self) -> None:
        """Sends a request that the server refuses without doing anything, and waits for the answer."""
        self._request("no/such/method", None)

    def wait_until_ready(self, patience_s: float = TIMEOUT_S) -> dict[str, Any]:
        """The state of the worker once it has its model. Raises BenchError if it does not get it in time."""
        status: dict[str, Any]
        give_up = time.monotonic() + patience_s
        while (status := self.request("infill/status", None))["state"] not in ("ready", "busy"):
            if status["state"] == "failed" or time.monotonic() > give_up:
                raise BenchError(f"the worker is {status['state']}: {status.get('detail', '')}")
            time.sleep(0.05)
        return status

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> Any:
        """The result of a request. Raises BenchError."""
        reply = self._request(method, params)
        if "result" not in reply:
            raise BenchError(f"{method}: {reply.get('error')}")
        return reply["result"]

    def _request(self, method: str, params: Any) -> dict[str, Any]:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while "method" in (reply := self._receive()) or reply["id"] != self._last_id:
            pass
        return reply

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
    """Both count from 0. A place behind a line's end is that end."""
    *above, last = text.split("\n")[: line + 1]
    return sum(len(line_above) + 1 for line_above in above) + min(character, len(last))

"""A model hub on this machine: a real HTTP server with the few endpoints that a download uses, and faults on demand."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REVISION = "0123456789abcdef0123456789abcdef01234567"
LARGE = ".safetensors"
"""Files of this kind, and GGUF files, are stored as large ones, known by their SHA-256."""


@dataclass
class Hub:
    """One model on a hub. Its fields may be changed while it serves.

    `statuses`: a path with such a part in it is answered once with this HTTP status and the hub's code for the error.
    `reason_phrase` stands behind each status.
    `pause_s` stops each large file halfway for so long.
    `cut_at` ends one transfer after so many bytes; `after_cut` joins `statuses` then. `damaged` is a file of which one
    byte is sent wrong. `claims` are sizes that are not true, `also` further names in the list of files.
    """

    repo: str
    folder: Path
    url: str = ""
    newest: str = REVISION
    licence: str | None = "apache-2.0"
    statuses: list[tuple[str, HTTPStatus, str]] = field(default_factory=list)
    reason_phrase: str | None = None
    cut_at: int | None = None
    after_cut: tuple[tuple[str, HTTPStatus, str], ...] = ()
    damaged: str = ""
    pause_s: float = 0.0
    redirect_to: str = ""
    claims: dict[str, float] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    requests: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def listing(self) -> dict[str, object]:
        siblings: list[dict[str, object]] = [{"rfilename": name, "size": 1, "blobId": "0" * 40} for name in self.also]
        for file in sorted(self.folder.iterdir()):
            content = file.read_bytes()
            size = self.claims.get(file.name, len(content))
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            sibling: dict[str, object] = {"rfilename": file.name, "size": size, "blobId": blob}
            if file.name.endswith((LARGE, ".gguf")):
                sibling["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": size, "pointerSize": 130}
            siblings.append(sibling)
        card = {"license": self.licence} if self.licence else {}
        return {"id": self.repo, "sha": self.newest, "siblings": siblings, "cardData": card, "tags": []}


@contextmanager
def hub_of(repo: str, folder: Path) -> Iterator[Hub]:
    """A hub that has the files of a folder as this repository."""
    hub = Hub(repo, folder)

    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield hub
    server.shutdown()
    server.server_close()


class _Handler(BaseHTTPRequestHandler):
    served: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hub = self.served
        hub.requests.append(" ".join(filter(None, (self.path, self.headers["Range"]))))
        hub.tokens.append(self.headers["Authorization"] or "")
        for number, (part, status, code) in enumerate(hub.statuses):
            if part in self.path:
                del hub.statuses[number]
                self._send(b"{}", status, {"X-Error-Code": code} if code else {})
                return
        if self.path.startswith(f"/api/models/{hub.repo}"):
            self._send(json.dumps(hub.listing()).encode(), HTTPStatus.OK, {"Content-Type": "application/json"})
        elif self.path.startswith(f"/{hub.repo}/resolve/"):
            if hub.redirect_to:
                self._send(b"", HTTPStatus.FOUND, {"Location": hub.redirect_to + self.path})
                return
            self._send_file(hub.folder / self.path.rpartition("/")[2])
        else:
            self._send(b"{}", HTTPStatus.NOT_FOUND, {"X-Error-Code": "RepoNotFound"})

    def _send_file(self, file: Path) -> None:
        content, begin = file.read_bytes(), 0
        if file.name == self.served.damaged:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if range_ := self.headers["Range"]:
            begin = int(range_.removeprefix("bytes=").partition("-")[0])
        headers = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"} if range_ else {}
        self._send(content[begin:], HTTPStatus.PARTIAL_CONTENT if range_ else HTTPStatus.OK, headers)

    def _send(self, content: bytes, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status, self.served.reason_phrase)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        cut_at = self.served.cut_at
        if cut_at is not None and len(content) > cut_at:
            self.served.cut_at = None
            self.served.statuses.extend(self.served.after_cut)
            self.wfile.write(content[:cut_at])
            self.close_connection = True
        else:
            half = len(content) // 2 if len(content) > 1_000_000 else 0
            self.wfile.write(content[:half])
            time.sleep(self.served.pause_s if half else 0)
            self.wfile.write(content[half:])

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""

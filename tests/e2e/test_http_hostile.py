"""Five hundred hostile requests: each is answered with a reason or dropped, and reads no file; users notice nothing."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.e2e.listening import endpoint_with, loaded
from tests.workers import PATIENCE_S

SEED = 41
COUNT = 500
AT_A_TIME = 24
CANARY = "canary-in-a-file"
PATHS = ("/infill", "/v1/completions", "/v1/fim/completions")


Pieces = list[bytes]
TOKENS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "[SUFFIX]", "[PREFIX]", "\n")
FIELDS = ("prompt", "suffix", "input_prefix", "input_extra", "n_predict", "max_tokens", "stop", "stream", "n")
ODD = (None, True, -1, 1.5, 10**40, "x", [], {}, [[]], ["x"] * 2_000, {"text": 3}, "\ud800", "\0", "x" * 300)
FOREIGN_HOSTS = ("page.example", "localhost.page.example", "[", "127.0.0.1@page.example", "\udcff")
SMUGGLED = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: page.example\r\n\r\n"
CHUNKED = b"POST /infill HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
PROTOCOLS = (
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT page.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "DELETE /infill HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET http://page.example/ HTTP/1.1\r\nHost: page.example\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01",
    'Content-Length: 2\r\n\r\n{"jsonrpc": "2.0"}',
)


class Attacker:
    """Makes requests: their bytes in pieces, and whether the client then closes its half, or all."""

    def __init__(self, seed: int, secret: Path) -> None:
        self._random = random.Random(seed)
        self._pick = self._random.choice
        self._secret = secret
        self._kinds = [*self._with_json(), *self._as_bytes()]

    def next(self) -> tuple[Pieces, str]:
        return self._pick(self._kinds)(), self._pick(("wait", "wait", "half", "abort"))

    def _post(self, body: bytes, *more: str, length: int | None = None) -> Pieces:
        head = [f"POST {self._pick(PATHS)} HTTP/1.1", "Host: localhost", *more]
        head.append(f"Content-Length: {len(body) if length is None else length}")
        return ["\r\n".join([*head, "", ""]).encode(errors="surrogateescape") + body]

    def _asks(self, **fields: object) -> Pieces:
        return self._post(json.dumps({"max_tokens": 4, "n_predict": 4, **fields}).encode())

    def _with_json(self) -> list[Callable[[], Pieces]]:
        """A body that is valid JSON, or nearly so."""
        pick = self._pick
        return [
            self._broken_json,
            self._odd_number,
            self._names_of_files,
            lambda: self._post(b'{"other":' + pick((b"[", b'{"a":')) * pick((100, 100_000))),
            lambda: self._asks(**{pick(FIELDS): pick(ODD) for _ in range(3)}),
            lambda: self._asks(prompt="".join(self._random.choices(TOKENS, k=200))),
            lambda: self._asks(prompt="x = ", stream=True),
            lambda: self._asks(prompt=(text := pick(" (x\n\ré") * pick((10_000, 2_000_000))), suffix=text),
            lambda: self._post('{"prompt": "é = "}'.encode(pick(("utf-16", "utf-32", "latin-1", "utf-8-sig")))),
            lambda: self._post(b'{"prompt": "x"}', length=pick((0, 3, 40))),
            lambda: self._post(b'{"prompt": "x"}', f"Origin: {pick(('null', 'http://page.example', 'file://', ''))}"),
        ]

    def _as_bytes(self) -> list[Callable[[], Pieces]]:
        """What is wrong before any JSON is read."""
        pick, up = self._pick, ("/..", "/%2e%2e", "//", "/..%2f", "/%00")
        return [
            self._slow_client,
            lambda: [self._random.randbytes(self._random.randrange(1, 5_000))],
            lambda: self._post(b"{}", "X-Long: " + "x" * pick((1_000, 70_000, 2_000_000))),
            lambda: self._post(b"{}", *(f"X-{number}: {number}" for number in range(pick((10, 5_000))))),
            lambda: self._post(b"x" * 100, length=pick((9 << 20, 1 << 62, 10**30))),
            lambda: self._post(b" " * (9 << 20)),
            lambda: [CHUNKED, *[b"100000\r\n" + b" " * 0x100000 + b"\r\n"] * pick((1, 10)), b"0\r\n\r\n"],
            lambda: self._post(b"{}", "Content-Length: 7"),
            lambda: self._post(SMUGGLED, "Transfer-Encoding: chunked"),
            lambda: self._post(self._random.randbytes(100), "Content-Encoding: gzip"),
            lambda: [f"GET {pick(up) * 8}{self._secret} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()],
            lambda: [
                b"GET /v1/models HTTP/1.1\r\nHost: %b\r\n\r\n" % pick(FOREIGN_HOSTS).encode(errors="surrogateescape")
            ],
            lambda: [pick(PROTOCOLS).encode("latin-1")],
        ]

    def _broken_json(self) -> Pieces:
        whole = json.dumps({"prompt": "x = ", "input_extra": [{"text": "y"}], "stop": ["\n"]}).encode()
        broken = bytearray(whole[: self._random.randrange(1, len(whole))])
        broken[self._random.randrange(len(broken))] = self._random.randrange(256)
        return self._post(bytes(broken))

    def _odd_number(self) -> Pieces:
        number = self._pick(("NaN", "1e400", "-Infinity", "0x10", "1" * 5_000))
        return self._post(f'{{"prompt": "x", "n_predict": {number}, "max_tokens": {number}}}'.encode())

    def _names_of_files(self) -> Pieces:
        names = (str(self._secret), f"file://{self._secret}", "/etc/passwd", "../../.env", "/dev/zero", "\0", "CON")
        prompt = "".join(f"<|file_sep|>{name}\nx\n" for name in names)
        extra = [{"filename": name, "text": "x"} for name in names]
        asked = f"<|repo_name|>a\n{prompt}<|fim_prefix|>"
        return self._asks(input_extra=extra, prompt=asked, model=str(self._secret))

    def _slow_client(self) -> Pieces:
        (whole,) = self._asks(prompt="x = ")
        step = self._random.randrange(20, 200)
        return [whole[at : at + step] for at in range(0, len(whole), step)][: self._random.randrange(1, 9)]


async def attack(port: int, pieces: list[bytes], then: str) -> str:
    """What became of the request: the status of the answer, or that the client was dropped or went itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with suppress(OSError):  # it was dropped already
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.05 if len(pieces) > 1 else 0)
            if then == "abort":
                return "gone"
            if then == "half":
                writer.write_eof()
        async with asyncio.timeout(PATIENCE_S):
            head = b""
            with suppress(OSError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
            if not head:
                return "dropped"
            status, body = int(head.split()[1]), b""
            if b"connection: close" in head.lower():
                with suppress(ConnectionError):  # it closes at once, perhaps in front of unread bytes
                    body = (await reader.read()).strip()
    finally:
        writer.transport.abort()
    assert CANARY.encode() not in body and b"root:" not in body
    if status >= 400 and body.startswith(b"{"):
        assert json.loads(body)["error"]["message"]
    assert status != 500, body
    return str(status)


async def test_hostile_requests_are_answered_or_dropped(runtime_folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(CANARY)
    attacker = Attacker(SEED, secret)
    gate = asyncio.Semaphore(AT_A_TIME)

    async def one(port: int) -> str:
        async with gate:
            return await attack(port, *attacker.next())

    flags = ("--model", "embedded", "--log-level", "error")
    async with endpoint_with(runtime_folder, *flags) as endpoint, endpoint.http() as http:
        assert (await loaded(http)).status_code == 200
        became = Counter(await asyncio.gather(*(one(endpoint.port) for _ in range(COUNT))))
        assert became.total() == COUNT
        assert {"dropped", "400", "403", "404", "413"} <= set(became), became
        reply = await http.post("/v1/completions", json={"prompt": "def add(a, b):\n    return ", "max_tokens": 8})
        assert reply.status_code == 200, reply.text

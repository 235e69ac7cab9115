"""Five hundred hostile requests: each is answered with a reason or dropped, and reads no file; users notice nothing."""

import asyncio
import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx2

from tests.e2e.http_endpoint import HttpEndpoint, loaded
from tests.workers import PATIENCE_S

SEED = 41
COUNT = 500
AT_A_TIME = 24
CANARY = "canary-in-a-file"
PATHS = ("/infill", "/v1/completions", "/v1/fim/completions")


class Attacker:
    """Makes requests: their bytes in pieces, and whether the client then closes its half, or all."""

    def __init__(self, seed: int, secret: Path) -> None:
        self._random = random.Random(seed)
        self._secret = secret
        self._kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("a_")]

    def next(self) -> tuple[str, list[bytes], str]:
        kind = self._random.choice(self._kinds)
        return kind.__name__, kind(), self._random.choice(("wait", "wait", "half", "abort"))

    def _post(self, body: bytes, *more: str, length: int | None = None, path: str = "") -> list[bytes]:
        head = [f"POST {path or self._random.choice(PATHS)} HTTP/1.1", "Host: localhost", *more]
        head.append(f"Content-Length: {len(body) if length is None else length}")
        return ["\r\n".join([*head, "", ""]).encode(errors="surrogateescape") + body]

    def a_noise(self) -> list[bytes]:
        return [self._random.randbytes(self._random.randrange(1, 5_000))]

    def a_long_header(self) -> list[bytes]:
        return self._post(b"{}", "X-Long: " + "x" * self._random.choice((1_000, 70_000, 2_000_000)))

    def many_headers(self) -> list[str]:
        return [f"X-{number}: {number}" for number in range(self._random.choice((10, 5_000)))]

    def a_crowd_of_headers(self) -> list[bytes]:
        return self._post(b"{}", *self.many_headers())

    def a_long_body(self) -> list[bytes]:
        return self._post(b"x" * 100, length=self._random.choice((9 << 20, 1 << 62, 10**30)))

    def a_long_chunked_body(self) -> list[bytes]:
        head = b"POST /infill HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        return [head, *[b"100000\r\n" + b" " * 0x100000 + b"\r\n"] * self._random.choice((1, 10)), b"0\r\n\r\n"]

    def a_false_length(self) -> list[bytes]:
        return self._post(b'{"prompt": "x"}', length=self._random.choice((0, 3, 40)))

    def two_lengths(self) -> list[bytes]:
        return self._post(b"{}", "Content-Length: 7")

    def a_smuggled_request(self) -> list[bytes]:
        inner = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: page.example\r\n\r\n"
        return self._post(inner, "Transfer-Encoding: chunked")

    def a_broken_json(self) -> list[bytes]:
        whole = json.dumps({"prompt": "x = ", "input_extra": [{"text": "y"}], "stop": ["\n"]}).encode()
        broken = bytearray(whole[: self._random.randrange(len(whole))])
        if broken:
            broken[self._random.randrange(len(broken))] = self._random.randrange(256)
        return self._post(bytes(broken))

    def a_deep_json(self) -> list[bytes]:
        deep = self._random.choice((b"[", b'{"a":')) * self._random.choice((100, 100_000))
        return self._post(b'{"other":' + deep)

    def a_wrong_type(self) -> list[bytes]:
        odd = (None, True, -1, 1.5, 10**40, "x", [], {}, [[]], ["x"] * 2_000, {"text": 3}, "\ud800", "\0", "x" * 300)
        names = ("prompt", "suffix", "input_prefix", "input_extra", "n_predict", "max_tokens", "stop", "stream", "n")
        fields = {self._random.choice(names): self._random.choice(odd) for _ in range(3)}
        return self._post(json.dumps({"max_tokens": 4, "n_predict": 4, **fields}).encode())

    def an_odd_number(self) -> list[bytes]:
        number = self._random.choice(("NaN", "1e400", "-Infinity", "0x10", "1" * 5_000))
        return self._post(f'{{"prompt": "x", "n_predict": {number}, "max_tokens": {number}}}'.encode())

    def another_encoding(self) -> list[bytes]:
        text = json.dumps({"prompt": "é = ", "max_tokens": 4}, ensure_ascii=False)
        return self._post(text.encode(self._random.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig"))))

    def a_compressed_body(self) -> list[bytes]:
        return self._post(self._random.randbytes(100), "Content-Encoding: gzip")

    def a_file_name(self) -> list[bytes]:
        names = (str(self._secret), f"file://{self._secret}", "/etc/passwd", "../../.env", "/dev/zero", "\0", "CON")
        extra = [{"filename": name, "text": "x"} for name in names]
        prompt = "".join(f"<|file_sep|>{name}\nx\n" for name in names)
        body = {"input_extra": extra, "prompt": f"<|repo_name|>a\n{prompt}<|fim_prefix|>", "n_predict": 4}
        return self._post(json.dumps(body | {"model": str(self._secret)}).encode())

    def a_path_to_a_file(self) -> list[bytes]:
        up = self._random.choice(("/..", "/%2e%2e", "//", "/..%2f", "/%00"))
        return [f"GET {up * 8}{self._secret} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()]

    def a_foreign_page(self) -> list[bytes]:
        origin = self._random.choice(("null", "http://page.example", "http://localhost", "file://", ""))
        return self._post(b'{"prompt": "x"}', f"Origin: {origin}")

    def a_foreign_host(self) -> list[bytes]:
        host = self._random.choice(("page.example", "localhost.page.example", "[", "127.0.0.1@page.example", "\udcff"))
        return [f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(errors="surrogateescape")]

    def another_protocol(self) -> list[bytes]:
        lines = (
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "CONNECT page.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            "DELETE /infill HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET http://page.example/ HTTP/1.1\r\nHost: page.example\r\n\r\n",
            "\x16\x03\x01\x02\x00\x01",
            'Content-Length: 2\r\n\r\n{"jsonrpc": "2.0"}',
        )
        return [self._random.choice(lines).encode("latin-1")]

    def a_slow_client(self) -> list[bytes]:
        (whole,) = self._post(b'{"prompt": "x = ", "max_tokens": 4, "n_predict": 4}')
        step = self._random.randrange(20, 200)
        return [whole[at : at + step] for at in range(0, len(whole), step)][: self._random.randrange(1, 9)]

    def a_good_request_cut_off(self) -> list[bytes]:
        return self._post(json.dumps({"prompt": "x = ", "max_tokens": 4, "stream": True}).encode())

    def tokens_in_the_text(self) -> list[bytes]:
        tokens = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "[SUFFIX]", "[PREFIX]", "\n")
        prompt = "".join(self._random.choices(tokens, k=200))
        return self._post(json.dumps({"prompt": prompt, "max_tokens": 4, "n_predict": 4}).encode())

    def a_text_of_one_long_line(self) -> list[bytes]:
        text = self._random.choice((" ", "(", "x", "\n", "\r", "é")) * self._random.choice((10_000, 2_000_000))
        return self._post(json.dumps({"prompt": text, "suffix": text, "max_tokens": 2, "n_predict": 2}).encode())


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
    endpoint = await HttpEndpoint.start(runtime_folder, "--model", "embedded", "--log-level", "error")
    attacker = Attacker(SEED, secret)
    gate = asyncio.Semaphore(AT_A_TIME)

    async def one() -> tuple[str, str]:
        async with gate:
            name, pieces, then = attacker.next()
            return name, await attack(endpoint.port, pieces, then)

    async with httpx2.AsyncClient(base_url=endpoint.url, timeout=PATIENCE_S) as http:
        assert (await loaded(http)).status_code == 200
        became = Counter(outcome for _, outcome in await asyncio.gather(*(one() for _ in range(COUNT))))
        assert became.total() == COUNT
        assert {"dropped", "400", "403", "404", "413"} <= set(became), became
        reply = await http.post("/v1/completions", json={"prompt": "def add(a, b):\n    return ", "max_tokens": 8})
        assert reply.status_code == 200, reply.text
    assert await endpoint.stop() == ""

"""The endpoint for plugins: their exact requests, after their documentation, answered by the editors' worker."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2
import pytest

from inference.messages import InfillRequest, PinnedText, Snippet
from lsp_server.diagnosis.workers import survey_workers
from lsp_server.http.app import MAX_BODY_BYTES, MAX_REQUESTS
from lsp_server.worker import WorkerClient
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.listening import FLAGS, OPTIONS, Listening, endpoint_with, loaded
from tests.e2e.relay import Relay
from tests.e2e.user import User
from tests.inference.models.test_gguf import FIM
from tests.workers import PATIENCE_S, is_idle, poll, short_folder

BEFORE = "import os\n\n\ndef size(path):\n"
LINE = "    return os.pa"
AFTER = "\n\n\nprint(size('.'))\n"
POINT = "class Point:\n    def __init__(self, x, y):\n        "
"""The small model writes a long text here, if a bad one."""
LLAMA_VIM = {
    "input_prefix": BEFORE,
    "input_suffix": AFTER,
    "input_extra": [
        {"text": "old = 1\n", "time": [12, 345], "filename": "old.py"},
        {"text": "new = 2\n", "time": [12, 999], "filename": "new.py"},
    ],
    "prompt": LINE,
    "n_predict": 128,
    "stop": [],
    "n_indent": 4,
    "top_k": 40,
    "top_p": 0.90,
    "stream": False,
    "samplers": ["top_k", "top_p", "infill"],
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 250,
    "response_fields": [
        *("content", "timings/prompt_n", "timings/prompt_ms", "timings/prompt_per_token_ms"),
        *("timings/prompt_per_second", "timings/predicted_n", "timings/predicted_ms"),
        *("timings/predicted_per_token_ms", "timings/predicted_per_second", "truncated", "tokens_cached"),
    ],
}
"""What llama.vim's `llama#fim` sends through curl."""
ZED = {
    "model": "qwen2.5-coder",
    "prompt": f"<|fim_prefix|>{BEFORE}{LINE}<|fim_suffix|>{AFTER}<|fim_middle|>",
    "max_tokens": 64,
    "temperature": 0.2,
    "stop": ["<|endoftext|>", "<|file_separator|>", "<|fim_pad|>", "<|fim_prefix|>", "<|fim_middle|>", "<PRE>"],
    "stream": False,
}
"""What Zed's `open_ai_compatible_api` sends for `prompt_format` qwen."""
MINUET = {
    "model": "qwen2.5-coder",
    "stream": True,
    "max_tokens": 56,
    "top_p": 0.9,
    "prompt": f"{BEFORE}{LINE}",
    "suffix": AFTER,
}
"""What minuet's `openai_fim_compatible` sends."""


OLLAMA = {
    "model": "qwen2.5-coder:0.5b",
    "prompt": BEFORE + LINE,
    "suffix": AFTER,
    "options": {"num_predict": 40, "temperature": 0.01, "stop": None},
    "keep_alive": 1800,
}
"""What plugins for Ollama send to `/api/generate`."""


def around(request: InfillRequest) -> tuple[str, str]:
    """The text in front of the request's hole, and behind it."""
    before, _, after = request.segments
    assert isinstance(before, PinnedText) and isinstance(after, PinnedText)
    return before.text, after.text


async def test_llama_vim_is_answered(http: httpx2.AsyncClient, relay: Relay) -> None:
    reply = await http.post("/infill", json=LLAMA_VIM)
    assert reply.status_code == 200
    answer = reply.json()
    assert set(answer) == set(LLAMA_VIM["response_fields"])
    assert isinstance(answer["content"], str)
    asked = relay.requests[-1]
    assert around(asked) == (BEFORE + LINE, AFTER)
    assert asked.context == (Snippet("new.py", "new = 2\n"), Snippet("old.py", "old = 1\n"))


def text_of(answer: dict[str, Any]) -> str:
    """The text of an answer, or of a part of a stream, in any of the forms."""
    choice = answer["choices"][0] if "choices" in answer else answer
    if "response" in choice:
        return choice["response"]
    return choice["text"] if "text" in choice else choice.get("message", choice.get("delta", choice))["content"]


async def test_all_forms_get_the_same_text(http: httpx2.AsyncClient, relay: Relay) -> None:
    bare = {"max_tokens": 40, "prompt": BEFORE + LINE, "suffix": AFTER}
    replies = [
        await http.post("/infill", json={"input_prefix": BEFORE + LINE, "input_suffix": AFTER, "n_predict": 40}),
        await http.post("/v1/completions", json=bare),
        await http.post("/v1/fim/completions", json=bare),
        await http.post("/v1/completions", json={**ZED, "max_tokens": 40}),
        await http.post("/completion", json={"prompt": ZED["prompt"], "n_predict": 40}),
        await http.post("/api/generate", json={**OLLAMA, "stream": False}),
    ]
    assert {around(each) for each in relay.requests[-len(replies) :]} == {(BEFORE + LINE, AFTER)}
    (text,) = {text_of(reply.json()) for reply in replies}
    assert text


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/fim/completions", "/infill"])
async def test_a_stream_adds_up_to_the_whole_text(http: httpx2.AsyncClient, path: str) -> None:
    asked = {**MINUET, "prompt": POINT}
    if path == "/infill":
        asked = {"input_prefix": POINT, "input_suffix": AFTER, "n_predict": 56, "stream": True}
    whole = (await http.post(path, json={**asked, "stream": False})).json()
    reply = await http.post(path, json=asked)
    assert reply.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert path == "/infill" or lines.pop() == "[DONE]"
    parts = [json.loads(line) for line in lines]
    assert "".join(map(text_of, parts)) == text_of(whole)
    if path == "/infill":
        assert [part["stop"] for part in parts] == [False] * (len(parts) - 1) + [True]
    else:
        assert parts[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]


async def test_ollamas_stream_adds_up_to_the_whole_text(http: httpx2.AsyncClient) -> None:
    asked = {**OLLAMA, "prompt": POINT}
    whole = (await http.post("/api/generate", json={**asked, "stream": False})).json()
    reply = await http.post("/api/generate", json=asked)
    assert reply.headers["content-type"] == "application/x-ndjson"
    parts = [json.loads(line) for line in reply.text.splitlines()]
    assert "".join(map(text_of, parts)) == text_of(whole)
    assert [part["done"] for part in parts] == [False] * (len(parts) - 1) + [True]
    assert whole["done_reason"] == parts[-1]["done_reason"] and whole["eval_count"] > 0
    (model,) = (await http.get("/api/tags")).json()["models"]
    assert model["name"] == whole["model"] == str(FIM)


async def test_the_openai_package_is_served(endpoint: Listening) -> None:
    from openai import AsyncOpenAI, BadRequestError

    async with AsyncOpenAI(base_url=f"{endpoint.url}/v1", api_key="none", timeout=PATIENCE_S) as openai:
        model = (await openai.models.list()).data[0].id
        assert model == str(FIM)
        asked = {"model": model, "prompt": POINT, "suffix": AFTER, "max_tokens": 40}
        whole = await openai.completions.create(**asked)
        stream = await openai.completions.create(**asked, stream=True)
        assert "".join([part.choices[0].text async for part in stream]) == whole.choices[0].text != ""
        assert whole.usage is not None and whole.usage.completion_tokens <= 40
        assert [choice.text for choice in (await openai.completions.create(**asked, n=2)).choices] == [
            whole.choices[0].text
        ]
        with pytest.raises(BadRequestError, match="max_tokens"):
            await openai.completions.create(**asked | {"max_tokens": "many"})


async def test_a_stop_ends_the_text(http: httpx2.AsyncClient) -> None:
    asked = {"prompt": BEFORE + LINE, "suffix": AFTER, "max_tokens": 40}
    whole = (await http.post("/v1/completions", json=asked)).json()["choices"][0]["text"]
    stop = whole.strip()[1:3]
    choice = (await http.post("/v1/completions", json={**asked, "stop": stop})).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (whole[: whole.find(stop)], "stop")


@pytest.mark.parametrize("fields", [{"n_predict": 0}, {"input_prefix": "\n", "input_suffix": "\n", "prompt": ""}])
async def test_nothing_is_computed_for_no_tokens_or_an_empty_file(
    http: httpx2.AsyncClient, relay: Relay, fields: dict[str, object]
) -> None:
    """llama.vim asks for no tokens of other files, to have them read ahead. The empty file has no name."""
    count = len(relay.requests)
    reply = await http.post("/infill", json={**LLAMA_VIM, **fields})
    assert reply.json()["content"] == "" and len(relay.requests) == count


async def test_an_editor_and_the_endpoint_share_a_worker(start: Start, runtime_folder: Path) -> None:
    client = await start({**PATIENT, "model": str(FIM), "device": "cpu"})
    async with endpoint_with(runtime_folder, *FLAGS) as endpoint, endpoint.http() as http:
        assert (await loaded(http)).json() == {"status": "ok"}
        await User(client, "x = ‸").complete()
        workers = [each.status for each in (await survey_workers("tests")).running if each.status.model == str(FIM)]
        assert len(workers) == 1


async def test_idle_connections_take_no_place(endpoint: Listening, http: httpx2.AsyncClient) -> None:
    opened = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(MAX_REQUESTS + 1)]
    assert (await http.get("/health")).status_code == 200
    for _, writer in opened[1:]:
        writer.write(b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
    refused = await poll(lambda: http.get("/health"), lambda reply: reply.status_code != 200)
    for _, writer in opened:
        writer.transport.abort()
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "unavailable_error")
    await poll(lambda: http.get("/health"), lambda reply: reply.status_code == 200)


@pytest.mark.parametrize("begun", [b"GET /health HTTP/1.1\r\nX-", b"GET /health HTTP/1.1\r\nContent-Length: 9\r\n\r\n"])
async def test_a_slow_later_request_is_dropped(endpoint: Listening, begun: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200" in await reader.readuntil(b"\r\n\r\n")
    writer.write(begun.replace(b"\r\n", b"\r\nHost: localhost\r\n", 1))

    async def drip() -> None:
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.2)

    dripping = asyncio.create_task(drip())
    try:
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                await reader.read()
    finally:
        dripping.cancel()
        writer.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_cancels_its_request(endpoint: Listening, stream: bool) -> None:
    async with WorkerClient(OPTIONS, name="tests") as worker:
        status = await worker.request_status()
        os.kill(status.pid, signal.SIGSTOP)
        try:
            body = json.dumps({"input_prefix": BEFORE, "n_predict": 500, "stream": stream}).encode()
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
                head = f"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
                await asyncio.sleep(0.05)
                writer.transport.abort()
        finally:
            os.kill(status.pid, signal.SIGCONT)
        await poll(worker.request_status, is_idle)
    async with endpoint.http() as http:  # more than may run at a time
        assert (await http.post("/infill", json=LLAMA_VIM)).status_code == 200


async def test_both_loopback_addresses_are_served(endpoint: Listening) -> None:
    for host in ("127.0.0.1", "[::1]"):
        async with httpx2.AsyncClient(base_url=f"http://{host}:{endpoint.port}", timeout=PATIENCE_S) as own:
            assert (await own.get("/health")).status_code == 200


async def test_a_long_request_is_told_so_before_it_ends(endpoint: Listening) -> None:
    def post(size: int) -> int:
        connection = HTTPConnection("127.0.0.1", endpoint.port, timeout=PATIENCE_S)
        connection.request("POST", "/infill", body=b" " * size, headers={"Content-Type": "application/json"})
        return connection.getresponse().status

    for size in (MAX_BODY_BYTES + 1, 5 * MAX_BODY_BYTES):
        assert await asyncio.to_thread(post, size) == 413


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_client_that_closes_its_half_is_answered(endpoint: Listening, version: bytes) -> None:
    body = json.dumps({"prompt": "def add(a, b):\n    return ", "max_tokens": 8}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    head = b"POST /v1/completions HTTP/%b\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (version, len(body))
    writer.write(head + body)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    assert b"HTTP/1.1 200 " in answer and b'"text"' in answer
    writer.close()


async def test_it_ends_quietly_while_the_model_loads() -> None:
    with short_folder() as folder:
        endpoint = await Listening.start(Path(folder), "--http", "0", *FLAGS)
        async with endpoint.http() as http:
            unknown = await http.get("/nothing")
            assert unknown.status_code == 404 and "/infill" in unknown.json()["error"]["message"]
        assert await endpoint.stop() == ""


async def test_without_a_pulled_model_it_says_how_to_pull_one(runtime_folder: Path) -> None:
    async with endpoint_with(runtime_folder) as endpoint, endpoint.http() as http:
        for reply in (await http.post("/infill", json=LLAMA_VIM), await http.get("/v1/models")):
            assert reply.status_code == 503
            assert "infill-ls models pull qwen2.5-coder-" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        *(("Origin", page, 403) for page in ("https://page.example", "null", "http://localhost")),
        *(("Host", name, 403) for name in ("page.example", "127.0.0.1.page.example", "")),
        *(("Host", name, 200) for name in ("localhost", "127.0.0.1:1", "[::1]:8012", "LOCALHOST")),
    ],
)
async def test_no_web_page_and_no_other_name_is_answered(
    http: httpx2.AsyncClient, header: str, value: str, status: int
) -> None:
    reply = await http.post("/infill", json=LLAMA_VIM, headers={header: value})
    assert reply.status_code == status
    assert status == 200 or reply.json()["error"]["message"]


async def test_without_a_token_no_other_name_is_answered(runtime_folder: Path) -> None:
    async with (
        endpoint_with(runtime_folder, "--model", "embedded", "--allow-remote") as endpoint,
        endpoint.http() as http,
    ):
        assert (await http.get("/health", headers={"Host": "page.example"})).status_code == 403


async def test_an_allowed_page_may_read_the_answers(runtime_folder: Path) -> None:
    origin = "https://editor.example"
    async with (
        endpoint_with(runtime_folder, "--model", "embedded", "--allow-origin", origin) as endpoint,
        endpoint.http() as http,
    ):
        asks = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        assert (await http.request("OPTIONS", "/infill", headers=asks)).status_code == 200
        reply = await loaded(http, Origin=origin)
        assert reply.headers["access-control-allow-origin"] == origin
        assert (await http.get("/health", headers={"Origin": "https://page.example"})).status_code == 403


async def test_a_token_must_be_sent_once_it_is_set(runtime_folder: Path) -> None:
    flags = ("--http", "0.0.0.0:0", "--model", "embedded", "--allow-remote")
    endpoint = await Listening.start(runtime_folder, *flags, INFILL_LS_HTTP_TOKEN="s3cret")
    async with endpoint.http() as http:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}):
            assert (await http.get("/health", headers=given)).status_code == 401
        headers = {"Authorization": "Bearer s3cret", "Host": "gpu.example"}
        assert (await loaded(http, **headers)).status_code == 200
    assert "s3cret" not in await endpoint.stop()

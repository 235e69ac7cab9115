"""A worker's trust: certificates, tokens, redirects. The servers are real and record their requests."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from inference.messages import Status, WorkerState
from tests.canvas_server import recording_server
from tests.http_server import HttpRequest, HttpServer, listening, response
from tests.inference.loaded import TWIN
from tests.partner_server import partner_server
from tests.workers import StartWorker, fill, is_idle

TOKEN = "hush-hush-0123456789"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that no authority of the system has signed, with its key beside it."""
    folder = tmp_path_factory.mktemp("tls")
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run([*words.split(), *more], check=True, capture_output=True)
    return folder / "cert"


async def outcome(start_worker: StartWorker, *words: str, **variables: str) -> Status:
    process = start_worker("--server-tokenizer", str(TWIN), *words, **variables)
    client = await process.connect()
    status = await client.becomes(lambda now: is_idle(now) or now.state is WorkerState.FAILED)
    client.close()
    assert TOKEN not in process.paths.log.read_text() + process.stderr + status.detail
    return status


async def test_only_trusted_certificates_are_accepted(start_worker: StartWorker, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    async with recording_server(context) as server:
        refused = await outcome(start_worker, "--model", server.url, INFILL_LS_SERVER_TOKEN=TOKEN)
        assert refused.state is WorkerState.FAILED and "certificate is not trusted" in refused.detail
        assert "set SSL_CERT_FILE" in refused.detail
        assert server.requests == []
        trusting = {"SSL_CERT_FILE": str(certificate), "INFILL_LS_SERVER_TOKEN": TOKEN}
        assert is_idle(await outcome(start_worker, "--model", server.url, **trusting))
        assert {asked.headers["authorization"] for asked in server.requests} == {f"Bearer {TOKEN}"}
        other_name = server.url.replace("localhost", "127.0.0.1")
        refused = await outcome(start_worker, "--model", other_name, **trusting)
        assert refused.state is WorkerState.FAILED and "certificate is not trusted" in refused.detail


async def test_a_server_without_tls_is_told_apart(start_worker: StartWorker) -> None:
    async with recording_server() as server:
        status = await outcome(start_worker, "--model", server.url.replace("http://", "https://"))
        assert status.state is WorkerState.FAILED and "does not speak TLS" in status.detail


class Elsewhere(HttpServer):
    """Redirects all requests."""

    to: str

    async def reply(self, request: HttpRequest, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response(307, {}, {"Location": self.to + request.path}))


async def test_neither_text_nor_token_follows_a_redirect(start_worker: StartWorker) -> None:
    async with listening(Elsewhere()) as server, recording_server() as other:
        server.to = other.url
        status = await outcome(start_worker, "--model", server.url, INFILL_LS_SERVER_TOKEN=TOKEN)
        assert status.state is WorkerState.FAILED and "redirects to another URL" in status.detail
        assert server.requests and other.requests == []


async def test_a_wrong_token_and_a_bad_file_of_one_are_told(start_worker: StartWorker, tmp_path: Path) -> None:
    file = tmp_path / "infill-ls" / "server-token"
    file.parent.mkdir()
    async with recording_server() as server:
        server.token = TOKEN
        for content, mode, said in (
            ("another", 0o600, "INFILL_LS_SERVER_TOKEN"),
            (TOKEN, 0o644, f"run: chmod 600 {file}"),
            (f"{TOKEN}\n{TOKEN}", 0o600, "a line break"),
        ):
            file.write_text(content)
            file.chmod(mode)
            status = await outcome(start_worker, "--model", server.url, XDG_CONFIG_HOME=str(tmp_path))
            assert status.state is WorkerState.FAILED and said in status.detail
            assert not any(TOKEN in asked.headers.get("authorization", "") for asked in server.requests)


async def test_http_leaves_this_machine_only_at_the_users_word(start_worker: StartWorker) -> None:
    refused = await outcome(start_worker, "--model", "http://gpu.invalid:8000")
    assert refused.state is WorkerState.FAILED and "is not encrypted" in refused.detail
    allowed = await outcome(start_worker, "--model", "http://gpu.invalid:8000", "--plain-http")
    assert allowed.state is WorkerState.FAILED and "cannot be reached" in allowed.detail


async def test_a_worker_without_a_token_sends_none_and_says_so(start_worker: StartWorker) -> None:
    async with recording_server() as server:
        server.token = TOKEN
        status = await outcome(start_worker, "--model", server.url, "--no-sends-token", INFILL_LS_SERVER_TOKEN=TOKEN)
        assert status.state is WorkerState.FAILED and "set `model` in your own settings" in status.detail
        assert server.requests and not any("authorization" in asked.headers for asked in server.requests)


async def test_plain_http_goes_by_no_proxy(start_worker: StartWorker) -> None:
    async with recording_server() as proxy:
        words = ("--model", "http://gpu.invalid:8000", "--plain-http")
        status = await outcome(start_worker, *words, HTTP_PROXY=proxy.url, INFILL_LS_SERVER_TOKEN=TOKEN)
        assert status.state is WorkerState.FAILED
        assert proxy.requests == []


async def test_a_worker_for_a_server_or_partner_loads_no_torch(start_worker: StartWorker) -> None:
    async with recording_server() as server, partner_server() as partner:
        for url, *words in ((server.url, "--server-tokenizer", str(TWIN)), (partner.url, "--partner", "auto")):
            process = start_worker("--model", url, *words, PYTHONPROFILEIMPORTTIME="1")
            client = await process.connect()
            assert (await client.becomes(is_idle)).memory_bytes < 120e6
            client.send(fill("r"))
            await client.final("r")
            lines = [line for line in process.stderr.splitlines() if line.startswith("import time:")]
            packages = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
            assert "httpx2" in packages
            assert not {"torch", "transformers", "numpy", "lsprotocol", "pygls", "tree_sitter"} & packages
            client.close()

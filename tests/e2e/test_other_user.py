"""Every listener serves its own user alone: another user, machine or container brings the token, and is a guest."""

import asyncio
import json
import os
from pathlib import Path

import httpx2
import pytest

from tests.e2e.listening import Listening, loaded
from tests.e2e.raw_client import RawClient, channel_to
from tests.other_user import as_other_user
from tests.partner_server import partner_server
from tests.workers import PATIENCE_S

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another user")
HELLO = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"initializationOptions": %b}}'
HOSTS = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


async def said_to(url: str, options: object = None) -> dict[str, object]:
    """The first reply to a client that says hello."""
    channel = await channel_to(url)
    await channel.send(HELLO % json.dumps(options).encode())
    async with asyncio.timeout(PATIENCE_S):
        reply = json.loads(await channel.receive() or b"{}")
    await channel.close()
    return reply


@pytest.mark.parametrize("host", HOSTS)
async def test_another_user_must_bring_the_token(runtime_folder: Path, host: str) -> None:
    server = await Listening.start(runtime_folder, "--tcp", "0")
    token = (runtime_folder / "config/infill-ls/http-token").read_text().strip()
    with as_other_user(host, server.port) as port:
        url = f"tcp://127.0.0.1:{port}"
        for options in (None, {"token": "wrong"}, {"token": 5}, [], {"token": ""}):
            reply = await said_to(url, options)
            assert "token" in reply["error"]["message"] and token not in str(reply)
        assert "result" in await said_to(url, {"token": token})
    assert "result" in await said_to(server.url)
    await server.stop()


@pytest.mark.parametrize("host", HOSTS)
async def test_another_user_of_the_endpoint_must_bring_it(runtime_folder: Path, host: str) -> None:
    server = await Listening.start(runtime_folder, "--http", "0", "--model", "embedded")
    token = (runtime_folder / "config/infill-ls/http-token").read_text().strip()
    with as_other_user(host, server.port) as port:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as other:
            assert (await other.get("/health")).status_code == 401
            assert (await other.get("/v1/models", headers={"Authorization": "Bearer x"})).status_code == 401
            for scheme in ("Bearer", "bearer", "BEARER "):
                headers = {"Authorization": f"{scheme} {token}", "Host": "host.docker.internal:1"}
                assert (await loaded(other, **headers)).status_code == 200
    async with server.http() as own:
        assert (await own.get("/health")).status_code == 200
        refused = await own.get("/health", headers={"Host": "host.docker.internal"})
        assert refused.status_code == 403 and "Authorization: Bearer" in refused.text
    await server.stop()


@pytest.mark.parametrize("kind", ["tcp", "http"])
async def test_the_line_that_is_printed_lets_others_in(runtime_folder: Path, kind: str) -> None:
    server = await Listening.start(runtime_folder, f"--{kind}", "0.0.0.0:0", "--allow-remote", "--model", "embedded")
    line = ""
    while not line.startswith("Authorization" if kind == "http" else '"initializationOptions"'):
        line = (await asyncio.wait_for(server.process.stdout.readline(), PATIENCE_S)).decode().strip()
    with as_other_user("127.0.0.1", server.port) as port:
        if kind == "http":
            name, _, value = line.partition(": ")
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as other:
                assert (await loaded(other, **{name: value})).status_code == 200
        else:
            options = json.loads(f"{{{line}}}")["initializationOptions"]
            assert "result" in await said_to(f"{kind}://127.0.0.1:{port}", options)
    await server.stop()


async def test_any_user_lets_others_in_with_a_warning(runtime_folder: Path) -> None:
    server = await Listening.start(runtime_folder, "--tcp", "0", "--any-user")
    with as_other_user("127.0.0.1", server.port) as port:
        assert "result" in await said_to(f"tcp://127.0.0.1:{port}")
    assert "WARNING" in await server.stop()


@pytest.mark.parametrize("settings", ["started", "sent"])
async def test_a_guest_chooses_no_server_and_reads_no_file(runtime_folder: Path, tmp_path: Path, settings: str) -> None:
    """Not even with the token: neither the owner's partner token nor a file's text goes to the guest's server."""
    (tmp_path / "secret_plans.py").write_text("CANARY = 'the owner alone'\n")
    document = (tmp_path / "a.py").as_uri()
    async with partner_server() as partner:
        server = await Listening.start(runtime_folder, "--tcp", "0", INFILL_LS_PARTNER_TOKEN="owners-token")
        token = (runtime_folder / "config/infill-ls/http-token").read_text().strip()
        with as_other_user("127.0.0.1", server.port) as port:
            hostile = {"model": "partner", "partner": {"url": partner.url}}
            given = {"token": token, **(hostile if settings == "started" else {})}
            client = RawClient(await channel_to(f"tcp://127.0.0.1:{port}"))
            await client.initialize(given, {}, [tmp_path])
            if settings == "sent":
                client.send({"method": "workspace/didChangeConfiguration", "params": {"settings": {"infill": hostile}}})
            client.open(document, "from secret_plans import CANARY\n\nx = \n")
            client.complete(1, document, 2, 4, invoked=True)
            await client.reply(1)
            status = await client.status(document)
            assert status["partner"] is None and any("partner" in problem for problem in status["problems"])
            for command in ("restartWorker", "pullModel"):
                answer = await client.command(command, {"model": "qwen2.5-coder-0.5b"})
                assert not answer["applied"] and "user who started" in answer["reason"]
            await client.vanish()
        await server.stop()
        assert not partner.asked


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_guest_reads_files_of_allowed_folders(runtime_folder: Path, tmp_path: Path, is_allowed: bool) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    for folder in (shared, tmp_path):
        (folder / "plans.py").write_text(f"def canary_of_{folder.name}(first, second):\n    return first\n")
    async with partner_server() as partner:
        flags = ("--model", "partner", "--allow-folder", str(shared if is_allowed else tmp_path / "other"))
        server = await Listening.start(runtime_folder, "--tcp", "0", *flags, INFILL_LS_PARTNER_URL=partner.url)
        token = (runtime_folder / "config/infill-ls/http-token").read_text().strip()
        with as_other_user("127.0.0.1", server.port) as port:
            client = RawClient(await channel_to(f"tcp://127.0.0.1:{port}"))
            await client.initialize({"token": token}, {}, [shared, tmp_path])
            for folder in (tmp_path, shared):  # the first finds out that the server takes other files
                document = (folder / "a.py").as_uri()
                client.open(document, f"from plans import canary_of_{folder.name}\n\nx = \n")
                client.complete(document, document, 2, 4, invoked=True)
                await client.reply(document)
            await client.vanish()
        await server.stop()
        sent = str(partner.asked)
        assert (f"def canary_of_{shared.name}" in sent) == is_allowed
        assert f"def canary_of_{tmp_path.name}" not in sent and "from plans" in sent


async def test_strangers_cost_little_and_block_nobody(runtime_folder: Path) -> None:
    server = await Listening.start(runtime_folder, "--tcp", "0")
    with as_other_user("127.0.0.1", server.port) as port:
        silent = [await channel_to(f"tcp://127.0.0.1:{port}") for _ in range(100)]
        long = await channel_to(f"tcp://127.0.0.1:{port}")
        await long.send(HELLO % json.dumps("x" * 1_000_000).encode())
        assert await long.receive() is None
        assert "result" in await said_to(server.url)
        for channel in silent:
            await channel.close()
    await server.stop()

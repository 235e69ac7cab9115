"""The endpoint serves its own user alone: another user, machine or container brings the token."""

import asyncio
import os
from pathlib import Path

import httpx2
import pytest

from tests.e2e.listening import Listening, loaded, serve
from tests.other_user import as_other_user
from tests.workers import PATIENCE_S

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another user")
HOSTS = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


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


async def test_the_printed_line_lets_others_in(runtime_folder: Path) -> None:
    server = await Listening.start(runtime_folder, "--http", "0.0.0.0:0", "--allow-remote", "--model", "embedded")
    line = ""
    while not line.startswith("Authorization"):
        line = (await asyncio.wait_for(server.process.stdout.readline(), PATIENCE_S)).decode().strip()
    with as_other_user("127.0.0.1", server.port) as port:
        name, _, value = line.partition(": ")
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as other:
            assert (await loaded(other, **{name: value})).status_code == 200
    assert "WARNING" in await server.stop(), "it is not encrypted"


async def test_any_user_lets_others_in_with_a_warning(runtime_folder: Path) -> None:
    server = await Listening.start(runtime_folder, "--http", "0", "--any-user", "--model", "embedded")
    with as_other_user("127.0.0.1", server.port) as port:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as other:
            assert (await loaded(other)).status_code == 200
    assert "WARNING" in await server.stop()


async def test_other_machines_need_permission(runtime_folder: Path) -> None:
    assert "--allow-remote" in await refusal(runtime_folder, "0.0.0.0:0")
    server = await Listening.start(runtime_folder, "--http", "0", "--model", "embedded")
    assert f"cannot listen at 127.0.0.1:{server.port}" in await refusal(runtime_folder, str(server.port))
    await server.stop()


async def refusal(runtime: Path, port: str) -> str:
    """What a server says that does not start."""
    process = await serve(runtime, "--http", port)
    _, errors = await process.communicate()
    assert process.returncode == 2 and b"Traceback" not in errors
    return errors.decode()

"""TCP: several clients, each with its own session; no other machine gets in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from tests.e2e.conftest import PATIENT
from tests.e2e.listening import Listening, serve
from tests.e2e.raw_client import RawClient, channel_to

URI = "untitled:Untitled-1"
Listen = Callable[..., Awaitable[str]]


@pytest_asyncio.fixture(loop_scope="session")
async def listen(runtime_folder: Path) -> AsyncIterator[Listen]:
    """Starts servers that listen; the URL of each. They end when told to."""
    started: list[Listening] = []

    async def start(*flags: str) -> str:
        started.append(await Listening.start(runtime_folder, *flags))
        return started[-1].url

    yield start
    for listening in started:
        await listening.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def url(runtime_folder: Path) -> AsyncIterator[str]:
    """Where a server listens that the tests of this file share."""
    listening = await Listening.start(runtime_folder, "--tcp", "0")
    yield listening.url
    await listening.stop()


async def refusal(runtime: Path, *flags: str) -> str:
    """What a server says that does not start."""
    process = await serve(runtime, *flags)
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"Traceback" not in errors
    return errors.decode()


async def test_clients_at_the_same_time_have_sessions_of_their_own(url: str) -> None:
    one, other = [await RawClient.join(url, PATIENT) for _ in range(2)]
    one.open(URI, "one = 1\n")
    other.open(URI, "other = 2\n")
    sums = [(await client.status(URI))["sha256"] for client in (one, other)]
    assert sums[0] != sums[1]
    await one.vanish()
    assert (await other.status(URI))["sha256"] == sums[1]
    await other.vanish()


async def test_exit_ends_the_connection_and_the_next_client_is_served(url: str) -> None:
    client = await RawClient.join(url, PATIENT)
    client.request("bye", "shutdown")
    client.send({"method": "exit"})
    await client.gone()
    assert client.counts["bye"] == 1
    later = await RawClient.join(url, PATIENT)
    assert "state" in await later.status()
    await later.vanish()


async def test_server_told_to_end_answers_and_leaves_clients(runtime_folder: Path) -> None:
    """Also those that leave at that very moment."""
    server = await Listening.start(runtime_folder, "--tcp", "0")
    clients = [await RawClient.join(server.url, PATIENT) for _ in range(20)]
    leaving, staying = clients[:10], clients[10:]
    for client in leaving:
        client.request("bye", "shutdown")
        client.send({"method": "exit"})
        await asyncio.sleep(0)
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    await asyncio.gather(*(client.vanish() for client in leaving), *(client.gone() for client in staying))
    assert await stopping == ""


async def test_bytes_that_are_no_messages_end_nothing_but_their_client(url: str) -> None:
    good = await RawClient.join(url, PATIENT)
    bad = await channel_to(url)
    await bad.send(b"\xff{nonsense")
    assert b"-32700" in (await bad.receive() or b"")
    bad.writer.write(b"no header at all\r\n\r\n")
    assert await bad.receive() is None
    assert "state" in await good.status()
    await good.vanish()


async def test_a_message_of_megabytes_arrives_whole(url: str) -> None:
    client = await RawClient.join(url, PATIENT)
    client.open(URI, "x = 1  # é\n" * 500_000)
    assert (await client.status(URI))["version"] == 1
    await client.vanish()


async def test_a_port_that_is_taken_is_said(listen: Listen, runtime_folder: Path) -> None:
    taken = (await listen("--tcp", "0")).rpartition(":")[2]
    assert f"cannot listen at 127.0.0.1:{taken}" in await refusal(runtime_folder, "--tcp", taken)


async def test_other_machines_need_permission_and_a_warning(runtime_folder: Path) -> None:
    for kind in ("--tcp", "--http"):
        assert "--allow-remote" in await refusal(runtime_folder, kind, "0.0.0.0:0")
    allowed = await Listening.start(runtime_folder, "--tcp", "0.0.0.0:0", "--allow-remote")
    assert allowed.url.startswith("tcp://0.0.0.0:")
    allowed.process.terminate()
    assert b"WARNING" in (await allowed.process.communicate())[1]

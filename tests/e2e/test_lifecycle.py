"""The server ends with its editor, answers open requests, and leaves the worker to others."""

import asyncio
import fcntl
import os
import pty
import signal
import termios
from pathlib import Path

import pytest

from inference.messages import MAX_STEPS
from lsp_server.lsp.transports import encode_lsp_frame
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import SERVER
from tests.e2e.user import User
from tests.workers import CLI, PATIENCE_S, environment

TEXT = "def add(a, b):\n    return ‸\n"


async def test_exit_ends_the_process_but_no_worker(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    client = await start()
    await User(client, TEXT).complete(invoked=False)
    pid = (await client.status())["pid"]
    assert await client.quit() == 0
    os.kill(pid, 0)
    assert capfd.readouterr().err == "", "editors show what comes from there as errors"


async def test_exit_without_shutdown_is_a_failure(start: Start) -> None:
    assert await (await start()).quit(shutdown=False) == 1


async def test_an_editor_that_vanishes_takes_the_server_with_it(start: Start) -> None:
    client = await start()
    User(client, TEXT).ask()
    client.process.stdin.close()
    assert await client.ended() == 1


async def test_server_ends_with_an_editor_that_stopped_reading(runtime_folder: Path) -> None:
    unread, stdout = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *SERVER, stdin=asyncio.subprocess.PIPE, stdout=stdout, env=environment(runtime_folder)
    )
    os.close(stdout)
    asking = [b'{"jsonrpc": "2.0", "id": %d, "method": "no/such"}' % number for number in range(5_000)]
    process.stdin.write(b"".join(map(encode_lsp_frame, asking)))  # the answers are many times what a pipe holds
    try:
        async with asyncio.timeout(PATIENCE_S):
            await process.stdin.drain()
            process.stdin.close()
            assert await process.wait() == 1
    finally:
        os.close(unread)
        if process.returncode is None:
            process.kill()


async def test_what_runs_at_shutdown_is_answered_before_it(start: Start) -> None:
    client = await start({**PATIENT, "maxSteps": MAX_STEPS})
    async with client.holding_the_worker():
        running = [User(client, TEXT).ask() for _ in range(3)]
        await client.has_handed_on()
        client.request("shutdown", "shutdown")
    await client.reply("shutdown")
    assert await client.quit(shutdown=False) == 0
    assert [client.counts[key] for key in running] == [1, 1, 1]
    assert list(client.replies)[-1] == "shutdown"


async def test_a_worker_that_hangs_keeps_nobody_from_leaving(start: Start) -> None:
    client = await start()
    await User(client, TEXT).complete(invoked=False)
    user = User(client, TEXT)
    async with client.holding_the_worker():
        older, newer = user.ask(), user.ask(invoked=True)
        client.cancel(newer)
        assert await user.items(older) == []
        assert (await client.reply(newer))["error"]["code"] == -32800
        running = user.ask()
        assert (await client.status())["state"] in ("ready", "busy")
        assert await client.quit() == 0
        assert client.counts[running] == 1


@pytest.mark.parametrize(("key", "status"), [(b"\x04", 1), (b"\x03", 130)], ids=["ctrl-d", "ctrl-c"])
async def test_in_a_terminal_it_says_what_it_is(runtime_folder: Path, key: bytes, status: int) -> None:
    leader, follower = pty.openpty()

    def own_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    process = await asyncio.create_subprocess_exec(
        *[*CLI, "serve", "--model", "embedded"],
        stdin=follower,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env=environment(runtime_folder),
        preexec_fn=own_the_terminal,
    )
    os.close(follower)
    async with asyncio.timeout(PATIENCE_S):
        said = (await process.stderr.readuntil(b"Ctrl-C\n")).decode()
        assert "is a language server" in said and "infill-ls fill FILE" in said
        assert process.returncode is None, "an editor may well use a pseudo-terminal"
        await asyncio.sleep(0.5)
        os.write(leader, key)
        assert await process.wait() == status
    os.close(leader)

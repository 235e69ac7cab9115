"""A worker whose model is a server's URL: the same socket, messages and states, without computing anything."""

import asyncio

from inference.messages import Cancel, Done, ErrorCode, Failed, Outcome, Shutdown, WorkerState
from tests.text_server import text_server
from tests.workers import PATIENCE_S, StartWorker, fill, is_idle

MODULE = "tests.remote_infiller"


async def test_a_request_is_cancelled_and_the_worker_ends_when_told(start_worker: StartWorker) -> None:
    async with text_server() as server:
        process = start_worker("--model", server.url, module=MODULE)
        client = await process.connect()
        await client.becomes(is_idle)
        server.go.clear()
        client.send(fill("unwanted"), fill("wanted"))
        async with asyncio.timeout(PATIENCE_S):
            await server.until_asked(3)
        await client.becomes(lambda status: status.running == 2)
        client.send(Cancel("unwanted"))
        reply = await client.final("unwanted")
        assert isinstance(reply, Done) and reply.outcome is Outcome.CANCELLED
        client.send(Shutdown())
        await client.becomes(lambda status: status.state is WorkerState.STOPPING)
        server.go.set()
        assert isinstance(await client.final("wanted"), Done)
        assert await process.exit_status() == 0


async def test_status_says_where_text_goes_and_what_fails(start_worker: StartWorker) -> None:
    async with text_server() as server:
        client = await start_worker("--model", f"{server.url}/v1/", module=MODULE).connect()
        status = await client.becomes(is_idle)
        assert (status.server, status.server_problem) == (server.url, "")
        assert status.server_up_s > 0
        server.status = 503
        client.send(fill("a"), fill("b"))
        failed = await client.final("a")
        assert isinstance(failed, Failed) and failed.code is ErrorCode.SERVER
        status = await client.becomes(is_idle)
        assert (status.server_problem, status.server_up_s, status.state) == (failed.message, 0, WorkerState.READY)
        server.status = 200
        client.send(fill("c"))
        assert isinstance(await client.final("c"), Done)
        status = await client.becomes(is_idle)
        assert status.server_problem == "" and status.server_up_s > 0


async def test_no_url_with_a_password_reaches_a_log(start_worker: StartWorker) -> None:
    process = start_worker("--model", "https://me:hush@gpu.example")
    assert await process.exit_status() == 2
    assert "INFILL_LS_SERVER_TOKEN" in process.stderr and "hush" not in process.stderr
    assert not process.paths.log.exists()


async def test_unwritable_reply_is_a_failure(start_worker: StartWorker) -> None:
    async with text_server() as server:
        client = await start_worker("--model", server.url, module=MODULE).connect()
        await client.becomes(is_idle)
        client.send(fill("r", instruction="huge"), fill("s"))
        async with asyncio.timeout(PATIENCE_S):
            reply = await client.final("r")
        assert isinstance(reply, Failed) and reply.code is ErrorCode.INTERNAL
        assert isinstance(await client.final("s"), Done)
        client.close()

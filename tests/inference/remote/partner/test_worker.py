"""A real worker process with a partner: its status, its answers, and the token it sends."""

from inference.messages import Cancel, Done, ErrorCode, Failed, FilledHoles, Outcome, Shutdown, WorkerState
from tests.inference.remote.asking import ANSWER, one_hole
from tests.partner_server import partner_server
from tests.workers import RawClient, StartWorker, fill, is_idle

TOKEN = "hush-hush-0123456789"


async def final(client: RawClient) -> tuple[list[FilledHoles], Done | Failed]:
    found = []
    while not isinstance(message := await client.answer(), Done | Failed):
        if isinstance(message, FilledHoles):
            found.append(message)
    return found, message


async def test_a_worker_says_where_text_goes_and_ends_when_told(start_worker: StartWorker) -> None:
    async with partner_server(kinds=("chat",)) as server:
        process = start_worker("--model", f"{server.url}/v1/", "--partner", "auto")
        client = await process.connect()
        status = await client.becomes(is_idle)
        assert (status.partner, status.sees_drafts) == ("chat", True)
        assert (status.model, status.server, status.server_problem) == (server.name, server.url, "")
        assert status.server_up_s > 0
        client.send(one_hole())
        candidates, done = await final(client)
        assert [each.texts for each in candidates] == [(ANSWER,)]
        assert isinstance(done, Done) and done.outcome is Outcome.COMPLETE
        server.hold.clear()
        client.send(fill("unwanted"), fill("wanted"))
        await client.becomes(lambda now: now.running == 2)
        client.send(Cancel("unwanted"))
        assert (await client.final("unwanted")).outcome is Outcome.CANCELLED
        client.send(Shutdown())
        await client.becomes(lambda now: now.state is WorkerState.STOPPING)
        client.send(fill("too late"))
        assert (await client.final("too late")).code is ErrorCode.STOPPED
        server.hold.set()
        assert isinstance(await client.final("wanted"), Done)
        assert await process.exit_status() == 0


async def test_no_url_with_a_password_reaches_a_log(start_worker: StartWorker) -> None:
    process = start_worker("--model", "https://me:hush@gpu.example")
    assert await process.exit_status() == 2
    assert "INFILL_LS_SERVER_TOKEN" in process.stderr and "hush" not in process.stderr
    assert not process.paths.log.exists()


async def test_a_partner_is_sent_its_own_token_and_never_the_servers(start_worker: StartWorker) -> None:
    async with partner_server(token=TOKEN) as server:
        words = ("--model", server.url, "--partner", "chat")
        for variable, state in (("PARTNER", WorkerState.READY), ("SERVER", WorkerState.FAILED)):
            other = {"PARTNER": "SERVER", "SERVER": "PARTNER"}[variable]
            tokens = {f"INFILL_LS_{variable}_TOKEN": TOKEN, f"INFILL_LS_{other}_TOKEN": "another"}
            process = start_worker(*words, **tokens)
            client = await process.connect()
            status = await client.becomes(lambda now: now.state in (WorkerState.READY, WorkerState.FAILED))
            assert status.state is state
            assert status.state is WorkerState.READY or "INFILL_LS_PARTNER_TOKEN" in status.detail
            assert TOKEN not in process.stderr + process.paths.log.read_text() + status.detail
            client.close()


async def test_a_partner_that_dies_is_told_of_and_found_again(start_worker: StartWorker) -> None:
    async with partner_server(kinds=("chat",)) as server:
        port = int(server.url.rpartition(":")[2])
        client = await start_worker("--model", server.url, "--partner", "auto").connect()
        await client.becomes(is_idle)
    client.send(one_hole())
    _, failed = await final(client)
    assert isinstance(failed, Failed) and failed.code is ErrorCode.SERVER and "partner.url" in failed.message
    async with partner_server(port, kinds=("chat",)):
        await client.becomes(lambda now: bool(now.server_problem))
        client.send(one_hole())
        candidates, _ = await final(client)
        assert [each.texts for each in candidates] == [(ANSWER,)]
        assert not (await client.status()).server_problem
    client.close()

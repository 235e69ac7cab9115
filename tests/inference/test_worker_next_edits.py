"""Requests for next edits are worker jobs like any other: one final reply, cancel, refusal."""

from inference.messages import Done, Edit, ErrorCode, Failed, Hunk, NextEditRequest, NextEdits, Outcome
from lsp_server.worker import WorkerClient, WorkerOptions
from lsp_server.worker.paths import WorkerPaths
from tests.workers import RawClient

TEXT = "def area(width):\n    return width * 2\n\n\nprint(hight)\n"
HUNK = Hunk(1, "    return hight * 2\n", "    return width * 2\n")


async def test_next_edits_then_done(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(NextEditRequest("n", TEXT, (HUNK,), proposals=(Edit(0, 3, "class"),)))
    found, done = await client.answer(), await client.answer()
    assert isinstance(found, NextEdits)
    assert isinstance(done, Done)
    assert (found.id, found.edits, done.id, done.outcome) == ("n", (), "n", Outcome.COMPLETE)
    client.close()


async def test_a_malformed_request_keeps_the_connection(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(NextEditRequest("bad", TEXT, ("no hunk",)))  # type: ignore[arg-type]
    failed = await client.final("bad")
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.BAD_REQUEST
    client.send(NextEditRequest("good", TEXT, ()))
    assert isinstance(await client.final("good"), Done)
    client.close()


async def test_a_client_gets_the_edits(resident: WorkerPaths) -> None:
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        assert await client.next_edits(NextEditRequest("n", TEXT, (HUNK,))) == ()

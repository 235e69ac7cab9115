"""Work-done progress: slow work is displayed, step by step, and can be stopped from the display."""

import asyncio
import random

import pytest
from lsprotocol import types
from lsprotocol.types import Position
from pygls.exceptions import JsonRpcException

from tests.e2e.conftest import PATIENT, StartEditor
from tests.e2e.editor import Editor, capabilities, everywhere, here
from tests.e2e.workbench import Workbench

REQUEST_CANCELLED = -32800
CODE = "def area(radius):\n    return ???\n"
LONG = "".join(f"def f{number}(x):\n    y = ???\n    return [x, ???]\n\n\n" for number in range(200))
"""More holes than anybody waits for."""
THOROUGH = {**PATIENT, "maxSteps": 64}


@pytest.fixture
def bench(editor: Editor) -> Workbench:
    return Workbench(editor)


async def is_idle(editor: Editor) -> None:
    async with asyncio.timeout(60):
        while (status := await editor.status()).running or status.waiting:
            await asyncio.sleep(0.05)


async def test_a_token_of_the_clients_is_begun_and_ended(bench: Workbench) -> None:
    await bench.fill("fillFile", bench.open(CODE), everywhere(), token="mine")
    kinds = bench.kinds("mine")
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    assert set(kinds[1:-1]) <= {"report"}
    begin = bench.progress[0][1]
    assert begin["title"] == "infill-ls: filling the hole" and begin["cancellable"] is True


async def test_it_says_which_step_it_is_at_and_can_be_stopped(start_editor: StartEditor) -> None:
    bench = Workbench(await start_editor(capabilities(), THOROUGH))
    filling = asyncio.create_task(bench.fill("fillFile", bench.open(LONG), everywhere(), token="mine"))
    await bench.until(lambda: bench.kinds("mine").count("report") >= 3)
    assert (await bench.editor.status()).running == 1
    bench.stop("mine")
    assert await filling == {"applied": False, "reason": "cancelled"}
    assert bench.kinds("mine")[-1] == "end"
    assert bench.edits == []
    await is_idle(bench.editor)
    reports = [value for _, value in bench.progress if value["kind"] == "report"]
    assert all(" of 400, step " in report["message"] for report in reports)
    assert all(report["message"].startswith("hole") for report in reports)
    percentages = [report["percentage"] for report in reports]
    assert percentages == sorted(percentages)
    assert percentages[-1] < 100


async def test_long_code_action_shows_progress_and_stops(bench: Workbench) -> None:
    uri = bench.open(LONG)
    (action,) = await bench.editor.actions(uri, here(Position(0, 0)), ["refactor.rewrite.infill.fillFile"])
    resolving = asyncio.create_task(bench.editor.resolve(action))
    await bench.until(lambda: bool(bench.progress))
    token, begin = bench.progress[0]
    assert begin["title"] == "infill-ls: filling 400 holes"
    bench.stop(token)
    with pytest.raises(JsonRpcException) as stopped:
        await resolving
    assert (stopped.value.code, stopped.value.message) == (REQUEST_CANCELLED, "cancelled")
    assert bench.kinds(token)[-1] == "end"
    await is_idle(bench.editor)


async def test_a_cancelled_request_ends_what_was_shown(bench: Workbench) -> None:
    protocol = bench.editor.client.protocol
    argument = {"uri": bench.open(LONG), "range": {"start": _ORIGIN, "end": _ORIGIN}}
    params = types.ExecuteCommandParams("infill-ls.fillFile", [argument], work_done_token="gone")
    future = protocol.send_request("workspace/executeCommand", params, msg_id="long")  # type: ignore[no-untyped-call]
    await bench.until(lambda: bool(bench.kinds("gone")))
    bench.editor.client.cancel_request(types.CancelParams("long"))
    with pytest.raises(JsonRpcException) as ended:
        await asyncio.wrap_future(future)
    assert ended.value.code == REQUEST_CANCELLED
    await bench.until(lambda: bench.kinds("gone")[-1] == "end")
    await is_idle(bench.editor)


async def test_every_stopped_request_is_answered(bench: Workbench) -> None:
    uri, chance = bench.open(LONG), random.Random(7)

    async def stopped(number: int) -> str:
        token = f"many-{number}"
        filling = asyncio.create_task(bench.fill("fillFile", uri, everywhere(), token=token))
        await bench.until(lambda: bool(bench.kinds(token)))
        await asyncio.sleep(chance.random() / 5)
        bench.stop(token)
        return str((await filling)["reason"])

    assert await asyncio.gather(*map(stopped, range(10))) == ["cancelled"] * 10
    begun = [token for token, value in bench.progress if value["kind"] == "begin"]
    ended = [token for token, value in bench.progress if value["kind"] == "end"]
    assert sorted(begun) == sorted(ended) == sorted(f"many-{number}" for number in range(10))
    await is_idle(bench.editor)


async def test_a_client_that_shows_no_progress_is_asked_for_none(start_editor: StartEditor) -> None:
    bench = Workbench(await start_editor(capabilities(progress=False)))
    uri = bench.open("".join(f"a{number} = [???, ???]\n" for number in range(3)))
    await bench.fill("fillFile", uri, everywhere())
    assert bench.progress == []
    assert bench.editor.client.progress_reports == {}


async def test_cancelling_what_is_not_running_does_nothing(bench: Workbench) -> None:
    bench.stop("never heard of")
    uri = bench.open(CODE)
    await bench.fill("fillFile", uri, everywhere(), token="ended")
    bench.stop("ended")
    assert (await bench.fill("fillFile", uri, everywhere(), token="ended"))["reason"] != "cancelled"


_ORIGIN = {"line": 0, "character": 0}

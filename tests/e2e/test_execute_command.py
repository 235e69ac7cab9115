"""`workspace/executeCommand`: the edit reaches the document by `workspace/applyEdit`, or the reply says why not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol.types import Position, Range
from pygls.exceptions import JsonRpcException

from tests.e2e.conftest import PATIENT, StartEditor
from tests.e2e.editor import Editor, capabilities, everywhere, here
from tests.e2e.workbench import Workbench, marked, plain
from tests.workers import ATTEMPTS, is_alive, kill, short_folder

INVALID_PARAMS = -32602
NOTHING = "the model found nothing that fits here"
CODE = """\
def area(radius):
    squared = ???
    return ???


def total(items):
    amount = 0
    for item in items:
        amount = amount + item.price
    return amount


print(area(2), ???)
"""


@pytest.fixture
def bench(editor: Editor) -> Workbench:
    return Workbench(editor)


async def done(bench: Workbench, name: str, uri: str, at: Range, **more: object) -> str:
    """The text after a command that applied; the embedded model may need more than one go at something that fits."""
    for _ in range(ATTEMPTS):
        answer = await bench.fill(name, uri, at, **more)  # type: ignore[arg-type]
        if answer["applied"]:
            assert answer["reason"] is None or " holes are left as they are" in answer["reason"]
            return bench.text(uri)
        assert answer["reason"].startswith(NOTHING)
    raise AssertionError(f"nothing that fits in {ATTEMPTS} attempts")


def changed_lines(before: str, after: str) -> list[int]:
    """The lines that differ between texts of as many lines."""
    old, new = before.split("\n"), after.split("\n")
    assert len(old) == len(new)
    return [number for number, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]


async def test_every_command_is_announced(editor: Editor) -> None:
    provider = editor.started.capabilities.execute_command_provider
    names = "fillHole fillFunction fillFile writeBody rework repair refine refineSuggestion didAccept restartWorker"
    names += " pullModel"
    assert sorted(provider.commands) == sorted(f"infill-ls.{name}" for name in names.split())


@pytest.mark.parametrize(
    ("name", "at", "lines"),
    [
        ("fillHole", Range(Position(2, 0), Position(13, 0)), [2, 12]),
        ("fillFunction", here(Position(0, 2)), [1, 2]),
        ("rework", marked(CODE, "amount + item.price"), [8]),
        ("repair", marked(CODE, "item.price"), [8]),
    ],
)
async def test_a_command_changes_its_holes_alone(bench: Workbench, name: str, at: Range, lines: list[int]) -> None:
    code = CODE.replace("item.price\n", "item.price +\n") if name == "repair" else CODE
    uri = bench.open(code)
    more = {"strength": 0.9} if name == "rework" else {}
    after = await done(bench, name, uri, at, **more)
    assert set(changed_lines(code, after)) <= set(lines)
    assert after != code
    for number in lines:
        head = code.split("\n")[number].split("???")[0] if "???" in code.split("\n")[number] else "        "
        assert after.split("\n")[number].startswith(head)


async def test_holes_that_the_deadline_leaves_no_time_for_are_told_of(start_editor: StartEditor) -> None:
    hurried = {**PATIENT, "deadlineMs": {"automatic": 1_000, "invoked": 10}}
    bench = Workbench(await start_editor(capabilities(), hurried))
    lines = [f"value_{number} = ???\n" for number in range(60)]
    uri = bench.open("".join(lines))
    for _ in range(ATTEMPTS):
        answer = await bench.fill("fillFile", uri, everywhere())
        if answer["applied"]:
            break
        assert answer["reason"].startswith("no answer within 10 ms")
    left = bench.text(uri).count("???")
    assert 0 < left < len(lines)
    assert answer["reason"].startswith(f"{left} of {len(lines)} holes are left as they are")


async def test_without_a_marker_the_cursor_decides_the_hole(bench: Workbench) -> None:
    code = "def area(radius):\n    return \n"
    after = await done(bench, "fillHole", bench.open(code), here(Position(1, 11)))
    assert after.startswith("def area(radius):\n    return ")
    assert after.endswith("\n")
    assert len(after) > len(code)


@pytest.mark.parametrize(
    ("name", "at", "reason"),
    [
        ("fillHole", Range(Position(5, 0), Position(6, 0)), "there is no hole here"),
        ("fillFunction", here(Position(6, 8)), "there is no hole in the function here"),
        ("writeBody", here(Position(12, 0)), "there is no function here"),
        ("rework", here(Position(6, 0)), "select the code to rework"),
        ("repair", here(Position(10, 0)), "there is no statement here"),
    ],
)
async def test_nothing_to_do_is_said_in_the_answer(bench: Workbench, name: str, at: Range, reason: str) -> None:
    uri = bench.open(CODE)
    assert await bench.fill(name, uri, at) == {"applied": False, "reason": reason}
    assert bench.text(uri) == CODE


async def test_text_that_is_not_noised_is_nothing_to_change(bench: Workbench) -> None:
    answer = await bench.fill("rework", bench.open(CODE), marked(CODE, "amount + item.price"), strength=0)
    assert answer["reason"] == "nothing to change: the model would write what is already there"


async def test_an_edit_that_the_editor_refuses_is_not_called_applied(bench: Workbench) -> None:
    uri = bench.open(CODE)
    bench.refuses = "the buffer is read-only"
    for _ in range(ATTEMPTS):
        answer = await bench.fill("fillFile", uri, everywhere())
        if not str(answer["reason"]).startswith(NOTHING):
            break
    assert answer == {"applied": False, "reason": "the buffer is read-only"}
    assert len(bench.edits) == 1
    assert bench.text(uri) == CODE


async def test_a_text_that_changes_meanwhile_is_left_alone(bench: Workbench) -> None:
    uri = bench.open(CODE)
    filling = asyncio.create_task(bench.fill("fillFile", uri, everywhere()))
    await asyncio.sleep(0)
    bench.type(uri, "x = 1\n" + CODE)
    answer = await filling
    assert answer["applied"] is False
    assert answer["reason"].startswith("the file has changed")
    assert bench.text(uri) == "x = 1\n" + CODE


async def test_a_command_for_another_version_is_refused(bench: Workbench) -> None:
    answer = await bench.fill("fillFile", bench.open(CODE), everywhere(), version=2)
    assert answer["reason"].startswith("the file has changed")


async def test_an_editor_that_cannot_apply_edits_is_told(start_editor: StartEditor) -> None:
    can = capabilities()
    can.workspace.apply_edit = None  # type: ignore[union-attr]
    bench = Workbench(await start_editor(can))
    answer = await bench.fill("fillFile", bench.open(CODE), everywhere())
    assert answer == {"applied": False, "reason": "this editor does not support workspace/applyEdit"}


PLACE = plain(here(Position(0, 0)))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (None, "Expected object, got null"),
        ({"range": PLACE}, "missing required field uri"),
        ({"uri": "file:///a.py", "range": {"start": {"line": -1, "character": 0}, "end": PLACE["end"]}}, "start.line"),
        ({"uri": "file:///a.py", "range": PLACE, "strength": 2}, "$.strength"),
        ({"uri": "file:///a.py", "range": PLACE, "strength": "\ud800"}, "half a surrogate pair"),
    ],
)
async def test_senseless_arguments_are_refused_by_name(bench: Workbench, argument: object, message: str) -> None:
    with pytest.raises(JsonRpcException) as refused:
        await bench.command("infill-ls.rework", argument)
    assert refused.value.code == INVALID_PARAMS
    assert "invalid argument for infill-ls.rework" in refused.value.message
    assert message in refused.value.message


async def test_an_unknown_command_is_refused(bench: Workbench) -> None:
    with pytest.raises(JsonRpcException, match="no such command: infill-ls.dance") as refused:
        await bench.command("infill-ls.dance")
    assert refused.value.code == INVALID_PARAMS


@pytest_asyncio.fixture(loop_scope="session")
async def alone() -> AsyncIterator[Editor]:
    with short_folder() as folder:
        editor = await Editor.start(Path(folder), capabilities(), PATIENT)
        yield editor
        pid = (await editor.status()).pid
        assert await editor.quit() == 0
        kill(pid)


async def test_started_anew_twice_at_once_there_is_one_new_worker(alone: Editor) -> None:
    bench = Workbench(alone)
    uri = bench.open(CODE)
    await done(bench, "fillHole", uri, here(Position(1, 15)))
    before = (await alone.status()).pid
    twice = (bench.command("infill-ls.restartWorker"), bench.command("infill-ls.restartWorker"))
    assert list(await asyncio.gather(*twice)) == [{"applied": True, "reason": None}] * 2
    now = await alone.status()
    assert (now.pid != before, now.state, now.clients) == (True, "ready", 1)
    assert not is_alive(before)
    await done(bench, "fillHole", uri, here(Position(2, 12)))

"""Context stays within its budget and time, and comes from the current files."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from inference.messages import Snippet
from lsp_server.context.provider import MAX_UNFINISHED, ContextSource, estimated_tokens, within
from tests.lsp_server.context.conftest import HELPERS, PATIENT_MS, Workspace


async def test_a_pipe_a_huge_and_a_binary_file_are_passed_over(workspace: Workspace) -> None:
    """The pipe has no writer: opening it to read would block for ever."""
    os.mkfifo(workspace.root / "pipe.py")
    workspace.write(huge="x = 1\n" * 40_000, binary="x = '\0'\n", good="def good(): pass\n")
    (workspace.root / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))
    query = workspace.query("main.py", "import pipe, huge, binary, latin, good\n")
    assert (await ContextSource().gather(query, 1_000, PATIENT_MS)) == (Snippet("good.py", "def good(): pass"),)


@pytest.mark.parametrize("budget", [64, 200, 1_000])
async def test_the_budget_is_kept(workspace: Workspace, budget: int) -> None:
    workspace.write(**{f"mod_{number}": HELPERS for number in range(20)})
    names = "\n".join(f"from mod_{number} import load, Config" for number in range(20))
    found = await ContextSource().gather(workspace.query("main.py", names), budget, PATIENT_MS)
    used = sum(estimated_tokens(snippet.path) + estimated_tokens(snippet.text) for snippet in found)
    assert used <= budget
    assert len(found) >= (budget > 200)


def test_snippet_too_large_gives_way_to_a_smaller_one() -> None:
    snippets = [Snippet("a", "x" * 30), Snippet("b", "x" * 300), Snippet("c", "x" * 30)]
    assert [snippet.path for snippet in within(snippets, 30)] == ["a", "c"]


async def test_a_request_takes_what_there_is_when_its_time_is_up(workspace: Workspace) -> None:
    """Forty files take longer than a millisecond; the rest is ready for the next request."""
    workspace.write(**{f"mod_{number}": HELPERS for number in range(40)})
    names = "".join(f"import mod_{number}\n" for number in range(40))
    source, query = ContextSource(), workspace.query("main.py", names)
    assert len(await source.gather(query, 65_536, 1)) < 40
    assert len(await source.gather(query, 65_536, PATIENT_MS)) == 40


async def test_queries_do_not_pile_up_while_files_cannot_be_read(workspace: Workspace) -> None:
    """As on a lost network drive: each query holds the text of every open document."""
    thread, drive_is_back = ThreadPoolExecutor(max_workers=1), threading.Event()
    thread.submit(drive_is_back.wait)
    source = ContextSource(thread)
    workspace.write(helpers=HELPERS)
    query = workspace.query("main.py", "import helpers\n")
    for _ in range(20):
        assert await source.gather(query, 1_000, 1) == ()
    assert source.unfinished == MAX_UNFINISHED
    drive_is_back.set()
    while not await source.gather(query, 1_000, PATIENT_MS):
        await asyncio.sleep(0.01)


async def test_a_file_is_read_again_when_it_has_changed(workspace: Workspace) -> None:
    source = ContextSource()
    path = workspace.at("helpers.py", "def load(): pass\n")
    query = workspace.query("main.py", "from helpers import load\n")
    assert (await source.gather(query, 1_000, PATIENT_MS))[0].text == "def load(): pass"
    path.write_text("def load(again): pass\n")
    assert (await source.gather(query, 1_000, PATIENT_MS))[0].text == "def load(again): pass"
    path.unlink()
    assert await source.gather(query, 1_000, PATIENT_MS) == ()

"""A real vLLM on the CPU, serving the embedded checkpoint, asked through the real server, command and client."""

import asyncio
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol.types import Position

from inference.engine.work import Counters
from inference.messages import Candidate, Hole, InfillRequest, Outcome, Text
from inference.models import registry
from inference.remote.client import Client
from inference.remote.vllm.reading import Reader
from inference.serving.infiller import RemoteInfiller
from tests.e2e.editor import Editor, capabilities
from tests.inference.remote.asking import answered, infiller_at, one_hole, request
from tests.served.vllm import Vllm, changing_proxy

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

SOURCE = "import os\n\n\ndef size(path):\n    return ???\n\n\ndef name(???):\n    pass\n\n\nprint(size(???))\n"
FILLS = 200
PATIENT = {"deadlineMs": {"automatic": 120_000, "invoked": 120_000}, "maxSteps": 2, "idleSeconds": 30}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def infiller(vllm: Vllm) -> AsyncIterator[RemoteInfiller]:
    """The client on its own, connected. The tokenizer is found by what the server says of its model."""
    async with infiller_at(vllm.url, tokenizer=None) as found:
        yield found


async def test_ghost_text_in_an_editor(vllm: Vllm, runtime_folder: Path) -> None:
    editor = await Editor.start(runtime_folder, capabilities(), PATIENT, ("--model", vllm.url))
    before = vllm.metric("request_success_total", finished_reason="length")
    uri = editor.open("import os\n\n\ndef size(path):\n    return \n\n\nprint(size('a'))\n")
    for _ in range(4):
        items = await editor.complete(uri, Position(4, 11), invoked=True)
        if items:
            break
    assert await editor.quit() == 0
    assert items
    assert str(items[0].insert_text).strip()
    assert vllm.metric("request_success_total", finished_reason="length") > before


async def test_three_holes_of_a_file(vllm: Vllm, runtime_folder: Path, tmp_path: Path) -> None:
    done = await filled(runtime_folder, tmp_path, vllm.url)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(re.escape(SOURCE).replace(re.escape("???"), "(.*)"), done.stdout)
    assert found, done.stdout
    assert "???" not in done.stdout


async def test_rework_begins_from_what_stands_there(infiller: RemoteInfiller) -> None:
    text = "os.path.getsize(path)"
    _, unchanged, _ = await answered(infiller, one_hole(text=text, strength=0.0))
    _, reworked, done = await answered(infiller, one_hole(text=text, strength=0.4))
    assert unchanged[0].texts == (text,)
    assert reworked[0].texts[0]
    assert done.outcome is Outcome.COMPLETE


async def test_cancelling_stops_vllm(vllm: Vllm) -> None:
    """Of a canvas of many steps no token is ever generated. (0.32 does not count aborted requests in a metric.)"""
    await vllm.until_idle()
    generated, seed = vllm.metric("generation_tokens_total"), [*[3] * 40, *[100] * 88]
    client = Client(vllm.url, is_here=True)
    reader = Reader(client, "infill", range(100, 300), None, Counters(), 1 << 18)
    waiting = asyncio.create_task(reader.read(seed, range(40, 128), steps=16))
    await vllm.until("num_requests_running", 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await vllm.until_idle()
    await asyncio.sleep(3)
    assert vllm.metric("generation_tokens_total") == generated
    await client.close()


async def test_a_request_that_is_cancelled_leaves_nothing_running(vllm: Vllm, infiller: RemoteInfiller) -> None:
    steps = infiller.infill(one_hole())
    waiting = asyncio.create_task(_all(steps))
    await vllm.until("num_requests_running", 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await steps.aclose()
    await vllm.until_idle()
    generated = vllm.metric("generation_tokens_total")
    await asyncio.sleep(3)
    assert vllm.metric("generation_tokens_total") == generated


async def test_a_deadline_is_kept_and_leaves_nothing_running(vllm: Vllm, infiller: RemoteInfiller) -> None:
    began = time.monotonic()
    _, candidates, done = await answered(infiller, one_hole(max_tokens=24), within_s=0.2)
    assert done.outcome is Outcome.DEADLINE
    assert time.monotonic() - began < 30
    assert all(not each.complete for each in candidates)
    await vllm.until_idle()


@pytest.mark.timeout(1800)  # two minutes on two idle cores
async def test_pins_hold_in_many_random_fills(vllm: Vllm, capsys: pytest.CaptureFixture[str]) -> None:
    """What a fill gives is what vLLM wrote in the rows of the hole; its rows elsewhere are never read."""
    numbers = random.Random(1)
    tokens = registry.find("embedded").tokenizer()
    words = [word for id_ in range(300, 2000) if (word := tokens.decode([id_])).strip()]
    async with changing_proxy(vllm.url) as (url, proxy), infiller_at(url, tokenizer=None) as infiller:
        proxy.honest = True
        limit = asyncio.Semaphore(8)

        async def fill(number: int) -> tuple[InfillRequest, Candidate]:
            before, after = ("".join(numbers.choices(words, k=size)) for size in (12, 8))
            start = numbers.choice(["", "", "ab", "_x"])
            hole = Hole(min_tokens=3, max_tokens=3, single_line=True, starts_with=start)
            asked = request(Text(before), hole, Text("\n" + after), seed=number, max_steps=1)
            async with limit:
                _, candidates, _ = await answered(infiller, asked)
            return asked, candidates[0]

        done = await asyncio.gather(*(fill(number) for number in range(FILLS)))
    assert len(done) == FILLS
    for asked, candidate in done:
        (hole,) = (part for part in asked.segments if isinstance(part, Hole))
        assert candidate.texts[0].startswith(hole.starts_with)
        assert "\n" not in candidate.texts[0]
    assert proxy.pinned > 5 * FILLS
    with capsys.disabled():
        print(f"\n{FILLS} fills: vLLM itself answered {proxy.changed} of {proxy.pinned} pinned rows otherwise", end=" ")


async def test_a_changed_pinned_row_never_reaches_a_file(vllm: Vllm, runtime_folder: Path, tmp_path: Path) -> None:
    async with changing_proxy(vllm.url) as (url, proxy):
        done = await filled(runtime_folder, tmp_path, url)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(re.escape(SOURCE).replace(re.escape("???"), "(.*)"), done.stdout), done.stdout
    assert proxy.pinned > 0


async def filled(runtime: Path, folder: Path, url: str) -> "subprocess.CompletedProcess[str]":
    """What `infill-ls fill` does with a file of three holes."""
    file = folder / "sized.py"
    file.write_text(SOURCE)
    command = [sys.executable, "-m", "lsp_server.cli", "fill", str(file), "--model", url, "--steps", "2", "--seed", "1"]
    environment = os.environ | {
        "INFILL_LS_RUNTIME_DIR": str(runtime),
        "INFILL_LS_DEADLINE_MS_INVOKED": "120000",
    }
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, env=environment, check=False
    )


async def _all(steps: object) -> list[object]:
    return [event async for event in steps]  # type: ignore[attr-defined]

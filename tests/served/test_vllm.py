"""A real vLLM on the CPU, serving the twin (tests/data/twin), asked through the real server, command and client."""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from inference.messages import FilledHoles, Hole, InfillRequest, PinnedText
from inference.models import registry
from inference.remote.server_backend import RemoteBackend
from tests.e2e.raw_client import RawClient
from tests.e2e.user import User
from tests.inference.loaded import TWIN
from tests.inference.remote.asking import answered, infiller_at, job, one_hole, request
from tests.served import conftest
from tests.served.vllm import Vllm
from tests.workers import infill_ls

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

SOURCE = "import os\n\n\ndef size(path):\n    return ???\n\n\ndef name(???):\n    pass\n\n\nprint(size(???))\n"
FILLS = 40
PATIENT = {"deadlineMs": {"automatic": 120_000, "invoked": 120_000}, "maxSteps": 2, "idleSeconds": 30}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def infiller(vllm: Vllm) -> AsyncIterator[RemoteBackend]:
    """The client on its own, connected. The tokenizer is found by what the server says of its model."""
    async with infiller_at(vllm.url, tokenizer=None) as found:
        yield found


async def test_ghost_text_in_an_editor(vllm: Vllm, runtime_folder: Path) -> None:
    client = await RawClient.start(runtime_folder, PATIENT, "--model", vllm.url)
    before = vllm.metric("request_success_total", finished_reason="length")
    item = await User(client, "import os\n\n\ndef size(path):\n    return ‸\n\n\nprint(size('a'))\n").offered(
        invoked=True
    )
    assert await client.quit() == 0
    assert item["insertText"].strip()
    assert vllm.metric("request_success_total", finished_reason="length") > before


async def test_three_holes_of_a_file(vllm: Vllm, runtime_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "sized.py"
    file.write_text(SOURCE)
    words, text = ("fill", file, "--model", vllm.url, "--steps", 2), SOURCE
    while "???" in text:  # what vLLM draws at random may fit none of the holes; the time limit ends this
        done = await asyncio.to_thread(infill_ls, *words, folder=runtime_folder, **conftest.PATIENT)
        assert done.returncode == 0, done.stderr
        text = done.stdout
        assert re.fullmatch(re.escape(SOURCE).replace(re.escape("???"), "(.*)"), text), text


async def test_a_request_that_is_cancelled_leaves_nothing_running(vllm: Vllm, infiller: RemoteBackend) -> None:
    steps = infiller.replies(job(one_hole()))
    waiting = asyncio.create_task(anext(aiter(steps)))
    await vllm.until("num_requests_running", 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await steps.aclose()
    await vllm.until_idle()
    generated = vllm.metric("generation_tokens_total")
    await asyncio.sleep(3)
    assert vllm.metric("generation_tokens_total") == generated


@pytest.mark.timeout(1800)  # two minutes on two idle cores
async def test_pins_hold_in_many_random_fills(vllm: Vllm) -> None:
    """What a fill gives is what vLLM wrote in the rows of the hole; its rows elsewhere are never read."""
    numbers = random.Random(1)
    tokens = registry.open_checkpoint(str(TWIN)).tokenizer()
    words = [word for id_ in range(300, 2000) if (word := tokens.decode([id_])).strip()]
    async with infiller_at(vllm.url, tokenizer=None) as infiller:
        limit = asyncio.Semaphore(8)

        async def fill(number: int) -> tuple[InfillRequest, FilledHoles]:
            before, after = ("".join(numbers.choices(words, k=size)) for size in (12, 8))
            start = numbers.choice(["", "", "ab", "_x"])
            hole = Hole(min_tokens=3, max_tokens=3, single_line=True, starts_with=start)
            asked = request(PinnedText(before), hole, PinnedText("\n" + after), seed=number, max_steps=1)
            async with limit:
                _, candidates, _ = await answered(infiller, asked)
            return asked, candidates[0]

        done = await asyncio.gather(*(fill(number) for number in range(FILLS)))
    assert len(done) == FILLS
    for asked, candidate in done:
        (hole,) = (part for part in asked.segments if isinstance(part, Hole))
        assert candidate.texts[0].startswith(hole.starts_with)
        assert "\n" not in candidate.texts[0]

"""llama.cpp's own server as the partner: `/infill`, which no other server has. See llama.py for what it needs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from inference.messages import Candidate, Outcome
from tests.inference.remote.partner.asking import one_hole, partner_at
from tests.served.commands import check_fills_alone, with_partner
from tests.served.llama import NAME, PYTHON, VARIABLE, Llama

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory, skip_loudly: Callable[[str], NoReturn]) -> Iterator[Llama]:
    if not PYTHON.exists():
        skip_loudly(f"llama.cpp's server is not tested: {VARIABLE} names no environment (see tests/served/llama.py)")
    server = Llama(tmp_path_factory.mktemp("llama"))
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["auto", "infill"])
async def test_it_is_asked_by_infill(llama: Llama, kind: str) -> None:
    async with partner_at(llama.url, kind) as infiller:
        assert infiller.partner == "infill"
        events = [event async for event in infiller.infill(one_hole(max_tokens=12))]
    assert events[-1].outcome is Outcome.COMPLETE
    (candidate,) = (event for event in events if isinstance(event, Candidate))
    assert candidate.texts[0].strip()
    assert "\n" not in candidate.texts[0]


async def test_doctor_says_that_it_has_infill(llama: Llama, runtime_folder: Path, tmp_path: Path) -> None:
    done = await with_partner(runtime_folder, llama.url, NAME, "doctor", "--json", str(tmp_path))
    checks = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert checks["partner"]["verdict"] == "ok", done.stdout
    assert "llama.cpp's /infill" in checks["partner"]["found"]


async def test_a_file_is_filled_by_it_alone(llama: Llama, runtime_folder: Path, tmp_path: Path) -> None:
    await check_fills_alone(tmp_path, runtime_folder, llama.url, NAME)

"""llama.cpp's own server as the partner: `/infill`, which no other server has. See llama.py for what it needs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.bench import infilling_tasks
from inference.bench.server_process import ModelServerProcess
from inference.messages import FilledHoles, Outcome
from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import RawClient
from tests.e2e.user import User
from tests.inference.remote.asking import job, one_hole, partner_at
from tests.not_tested import not_tested
from tests.served.conftest import check_fills_alone, with_partner
from tests.served.llama import MODEL, NAME, PYTHON, VARIABLE, serve

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1500)]

HELD_OUT = Path(__file__).parents[1] / "data" / "held_out.jsonl.gz"
LINES = 25


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServerProcess]:
    if not PYTHON.exists():
        not_tested(f"llama.cpp's server is not tested: {VARIABLE} names no environment (see tests/served/llama.py)")
    if MODEL is None:
        not_tested("llama.cpp's server is not tested: Qwen2.5-Coder 0.5B could not be pulled")
    server = serve(tmp_path_factory.mktemp("llama"))
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["auto", "infill"])
async def test_it_is_asked_by_infill(llama: ModelServerProcess, kind: str) -> None:
    async with partner_at(llama.url, kind) as infiller:
        assert infiller.partner == "infill"
        events = [event async for event in infiller.replies(job(one_hole(max_tokens=12)))]
    assert events[-1].outcome is Outcome.COMPLETE
    (candidate,) = (event for event in events if isinstance(event, FilledHoles))
    assert candidate.texts[0].strip()
    assert "\n" not in candidate.texts[0]


async def test_doctor_says_that_it_has_infill(llama: ModelServerProcess, runtime_folder: Path, tmp_path: Path) -> None:
    done = await with_partner(runtime_folder, llama.url, NAME, "doctor", "--json", str(tmp_path))
    checks = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert checks["partner"]["verdict"] == "ok", done.stdout
    assert "asked as infill" in checks["partner"]["found"]


async def test_a_file_is_filled_by_it_alone(llama: ModelServerProcess, runtime_folder: Path, tmp_path: Path) -> None:
    await check_fills_alone(tmp_path, runtime_folder, llama.url, NAME)


async def test_refined_drafts_are_as_good_as_the_partner_alone(llama: ModelServerProcess, runtime_folder: Path) -> None:
    """Hidden lines: the embedded model's drafts, the partner alone, and drafts refined by it; two lines are luck."""
    tasks = [each for each in infilling_tasks.read_tasks(HELD_OUT) if each.kind == "line"]
    tasks = [each for each in tasks if (each.prompt + each.suffix).isascii()][:LINES]
    options = {**PATIENT, "device": "cpu", "prefetch": False, "partner": {"url": llama.url, "model": NAME}}
    own = await RawClient.start(runtime_folder, {**options, "model": "embedded"})
    other = await RawClient.start(runtime_folder, {**options, "model": "partner"})
    exact = {"draft": 0, "partner": 0, "together": 0}
    for task in tasks:
        found = {"partner": await _filled(other, task), **await _refined(own, task)}
        for who, text in found.items():
            exact[who] += text.strip() == task.solution.strip()
    print(f"{len(tasks)} lines, exact: {exact}")
    assert exact["together"] >= max(exact["draft"], exact["partner"] - 2) > 0
    assert [await own.quit(), await other.quit()] == [0, 0]


async def _filled(client: RawClient, task: infilling_tasks.InfillingTask) -> str:
    items = await User(client, f"{task.prefix}‸{task.suffix_text}").complete()
    return items[0]["insertText"] if items else ""


async def _refined(client: RawClient, task: infilling_tasks.InfillingTask) -> dict[str, str]:
    user = User(client, f"{task.prefix}‸{task.suffix_text}")
    items = await user.complete()
    draft = items[0]["insertText"] if items else ""
    if items and (await client.command("refineSuggestion", user.id(items[0]), user.uri))["applied"]:
        items = await user.complete()
    return {"draft": draft, "together": items[0]["insertText"] if items else ""}

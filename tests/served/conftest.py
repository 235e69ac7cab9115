"""One vLLM for each checkpoint, and `infill-ls` as a process with a partner in its environment.

Where vLLM is not installed or not up in time, its tests are skipped, and loudly.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.inference.loaded import TWIN
from tests.not_tested import not_tested, pytest_terminal_summary  # noqa: F401 (a hook)
from tests.served.vllm import DIFFUSION, ENVIRONMENT, FIM, FIM_NAME, OTHER_NAME, Vllm
from tests.workers import Finished, infill_ls

PATIENT = {"INFILL_LS_DEADLINE_MS_INVOKED": "100000"}


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    with _started(TWIN, tmp_path_factory, DIFFUSION) as server:
        yield server


@pytest.fixture(scope="module")
def partner_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    with _started(FIM, tmp_path_factory, ("--served-model-name", FIM_NAME, OTHER_NAME)) as server:
        yield server


@contextmanager
def _started(checkpoint: Path, folders: pytest.TempPathFactory, flags: Sequence[str]) -> Iterator[Vllm]:
    if not (ENVIRONMENT / "bin" / "vllm").exists():
        not_tested(f"no vLLM in {ENVIRONMENT}: see what tests/served/install.sh said")
    server = Vllm(checkpoint, folders.mktemp("vllm") / "log", flags)
    try:
        try:
            server.wait_until_ready()
        except TimeoutError as error:
            not_tested(str(error))
        yield server
    finally:
        server.stop()


async def with_partner(runtime: Path, url: str, model: str, *words: str) -> Finished:
    given = {"INFILL_LS_PARTNER_URL": url, "INFILL_LS_PARTNER_MODEL": model, **PATIENT}
    return await asyncio.to_thread(infill_ls, *words, folder=runtime, **given)


async def check_fills_alone(folder: Path, runtime: Path, url: str, model: str) -> None:
    """The partner at `url` fills a file by itself, and nothing around the hole changes."""
    file = folder / "sized.py"
    file.write_text("import os\n\n\ndef size(path):\n    return ???\n\n\nprint(size('a'))\n")
    done = await with_partner(runtime, url, model, "fill", str(file), "--model", "partner")
    assert done.returncode == 0, done.stderr
    before, after = file.read_text().split("???")
    assert done.stdout.startswith(before)
    assert done.stdout.endswith(after)
    assert done.stdout[len(before) : -len(after)].strip()

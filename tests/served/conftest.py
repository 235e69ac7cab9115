"""One vLLM for each checkpoint. Where it is not installed or not up in time, its tests are skipped, and loudly."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.inference.loaded import TWIN
from tests.not_tested import not_tested, pytest_terminal_summary  # noqa: F401 (a hook)
from tests.served.vllm import DIFFUSION, ENVIRONMENT, FIM, FIM_NAME, OTHER_NAME, Vllm


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
            server.wait()
        except TimeoutError as error:
            not_tested(str(error))
        yield server
    finally:
        server.stop()

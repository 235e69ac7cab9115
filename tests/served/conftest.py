"""One vLLM for each checkpoint. Where it is not installed or not up in time, its tests are skipped, and loudly."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.inference.loaded import TWIN
from tests.served.vllm import DIFFUSION, ENVIRONMENT, FIM, FIM_NAME, OTHER_NAME, Vllm

_why_not: list[str] = []


def _skip(why: str) -> NoReturn:
    _why_not.append(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def skip_loudly() -> Callable[[str], NoReturn]:
    return _skip


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
        _skip(f"no vLLM in {ENVIRONMENT}: see what tests/served/install.sh said")
    server = Vllm(checkpoint, folders.mktemp("vllm") / "log", flags)
    try:
        try:
            server.wait()
        except TimeoutError as error:
            _skip(str(error))
        yield server
    finally:
        server.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _why_not:
        terminalreporter.section("NOT TESTED", red=True, bold=True)
        for why in dict.fromkeys(_why_not):
            terminalreporter.line(why, red=True)

"""One vLLM for the whole run. Where it is not installed or not up in time, its tests are skipped, and loudly.

One that ends at its start fails them.
"""

from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from inference.models import registry
from tests.served.team import ROUTER
from tests.served.vllm import ENVIRONMENT, Vllm

_why_not: list[str] = []


def _skip(why: str) -> NoReturn:
    _why_not.append(why)
    pytest.skip(why)


@pytest.fixture
def skip_loudly() -> Callable[[str], NoReturn]:
    """Skips a test, and says why at the end of the run."""
    return _skip


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    """A real vLLM with the embedded checkpoint."""
    if not (ENVIRONMENT / "bin" / "vllm").exists():
        _skip(f"no vLLM in {ENVIRONMENT}: see what tests/served/install.sh said")
    server = Vllm(registry.find("embedded").folder, tmp_path_factory.mktemp("vllm") / "log")
    try:
        try:
            server.wait()
        except TimeoutError as error:
            _skip(str(error))
        yield server
    finally:
        server.stop()


@pytest.fixture
def team_programs() -> None:
    """What a team's tests run is there: vLLM, and vllm-router."""
    for program in (ENVIRONMENT / "bin" / "vllm", ROUTER):
        if not program.exists():
            _skip(f"no {program}: see what tests/served/install.sh said")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in red what was not tested."""
    if _why_not:
        terminalreporter.section("NOT TESTED", red=True, bold=True)
        for why in dict.fromkeys(_why_not):
            terminalreporter.line(why, red=True)

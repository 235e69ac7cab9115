"""VS Code for the tests: one installation, one browser, one window shared by most tests, on a separate network."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, sync_playwright

from tests.editors.partner import Partner
from tests.editors.places import INSTALLED
from tests.editors.vscode.code_server import CodeServer, browser_in, new_home, why_missing
from tests.editors.vscode.private_network import PrivateNetwork
from tests.editors.vscode.window import Window
from tests.not_tested import not_tested

STARTING_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test starts a browser, an editor and a model, and all share two cores."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(STARTING_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What every window looked like when a test failed: pictures in .editors/failed."""
    report = yield
    context = getattr(item, "funcargs", {}).get("browser")
    if report.failed and context is not None:
        for number, page in enumerate(context.pages):
            page.screenshot(path=INSTALLED / "failed" / f"{item.name}-{number}.png")
    return report


@pytest.fixture(scope="package")
def home() -> Iterator[Path]:
    if reason := why_missing():
        not_tested(reason)
    with new_home() as home:
        yield home


@pytest.fixture(scope="package")
def code_server(home: Path, network: PrivateNetwork | None) -> Iterator[CodeServer]:
    code_server = CodeServer(home, network)
    code_server.install()
    yield code_server
    code_server.stop()


@pytest.fixture(scope="package")
def address(code_server: CodeServer) -> str:
    return code_server.start()


@pytest.fixture(scope="package")
def browser(home: Path, network: PrivateNetwork | None) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        context = browser_in(playwright, home, network)
        yield context
        context.close()


@pytest.fixture(scope="package")
def shared_window(browser: BrowserContext, address: str, home: Path) -> Window:
    window = Window(browser, address, home / "project")
    window.open("start.py", "\n")
    window.status_is("sparkle")
    return window


@pytest.fixture
def window(shared_window: Window) -> Iterator[Window]:
    yield shared_window
    shared_window.close_all()


@pytest.fixture
def partner(home: Path, network: PrivateNetwork | None, request: pytest.FixtureRequest) -> Iterator[Partner]:
    partner = Partner(home / f"partner-{request.node.nodeid.rpartition('::')[2]}", network)
    yield partner
    partner.end()


@pytest.fixture
def model(window: Window, code_server: CodeServer, partner: Partner) -> Iterator[Partner]:
    """The partner as the only model."""
    own = {"model": "partner", "partner__url": partner.url, "partner__kind": "chat"}
    code_server.set(**{f"infill__{name}": value for name, value in own.items()})
    window.status_is("thinker")
    yield partner
    code_server.set()
    window.status_is("embedded")

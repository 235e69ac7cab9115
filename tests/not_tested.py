"""What cannot be tested on this machine is skipped, and the last lines of the run say so in red."""

import os
from typing import NoReturn

import pytest

_missing: dict[str, None] = {}


def not_tested(what: str) -> NoReturn:
    """Skips a test; fails it where all must be tested."""
    _missing[what] = None
    if os.environ.get("INFILL_TEST_EDITORS_ALL"):
        pytest.fail(f"NOT TESTED: {what}")
    pytest.skip(f"NOT TESTED: {what}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Of a conftest that imports it."""
    while _missing:
        what, _ = _missing.popitem()
        terminalreporter.write_line(f"NOT TESTED: {what}", red=True, bold=True)

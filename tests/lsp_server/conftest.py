"""For tests of the server's parts: what it logs."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """With what the server logs, too, which reaches no other logger."""
    logging.getLogger("lsp_server").addHandler(caplog.handler)
    yield caplog
    logging.getLogger("lsp_server").removeHandler(caplog.handler)

"""The initial workspace of the context tests."""

from pathlib import Path

import pytest

from tests.lsp_server.context.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")

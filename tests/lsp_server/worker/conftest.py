"""Folders for workers of one test's own."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lsp_server.diagnosis.workers import survey_workers
from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.workers import kill, short_folder


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder for the workers of one test, which are killed after it."""
    with short_folder() as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        yield Path(folder)
        monkeypatch.setenv(FOLDER_VARIABLE, folder)  # the test may have named another one
        for worker in asyncio.run(survey_workers("tests")).running:
            kill(worker.status.pid)

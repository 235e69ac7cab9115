"""A keystroke in a file of 5,000 lines is cheap: edit, snapshot, hole. A loose limit that catches growing work."""

import statistics
import time

import pytest

from lsp_server import carve
from lsp_server.documents.positions import Encoding
from tests.lsp_server.long_files import TEMPLATES, TYPED, long_file

MEDIAN_MS = 12.0


@pytest.mark.parametrize("comment", ["plain", "é😀"])
@pytest.mark.parametrize("language_id", TEMPLATES)
def test_a_keystroke_costs_milliseconds(language_id: str, comment: str) -> None:
    file, spent_ms = long_file(language_id, comment), []
    document = file.document()
    document.snapshot()
    for count, key in enumerate(file.keys(), 1):
        started = time.thread_time()  # not the clock, which other work on the machine would slow
        document.apply([key], count, Encoding.UTF16)
        carve.at_cursor(document.snapshot(), file.offset + count)
        spent_ms.append((time.thread_time() - started) * 1000)
    assert document.text[file.offset :].startswith(TYPED)
    assert statistics.median(spent_ms) < MEDIAN_MS

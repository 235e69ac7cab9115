"""Which of two fills is better: the one that parses, else the one that the model finds likelier, else the draft."""

from collections.abc import Sequence

import pytest

from lsp_server import carve
from lsp_server.documents.document import Document
from lsp_server.refine.comparison import is_better
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions
from lsp_server.worker.paths import WorkerPaths

TEXT = "def add(a, b):\n    return ???\n\n\nprint(add(1, 2))\n"
LONG = "x" * 100_000


async def better(draft: str, other: str, text: str = TEXT) -> bool:
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    spans: Sequence[carve.Span] = carve.markers(snapshot, "???")
    async with WorkerClient(WorkerOptions(), name="tests") as worker:
        return await is_better(worker, snapshot, spans, [draft], [other], deadline_ms=60_000, marker="???")


@pytest.mark.parametrize(
    ("draft", "other", "expected"),
    [
        ("zebra ** quux", "a + b", True),
        ("a + b", "zebra ** quux", False),
        ("a + b", "a + b", False),
        ("(a + b", "zebra ** quux", True),  # the draft breaks the parse
        ("zebra ** quux", "(a + b", False),
        ("a + b", LONG, False),  # nobody can tell: it is too long for the model
        (LONG, "a + b", False),
    ],
)
async def test_the_better_one_is_found(resident: WorkerPaths, draft: str, other: str, expected: bool) -> None:
    assert await better(draft, other) is expected


async def test_where_the_worker_fails_the_draft_stays() -> None:
    """No worker is started for a folder that is none."""
    snapshot = Document("file:///a.py", "python", 1, TEXT).snapshot()
    spans = carve.markers(snapshot, "???")
    async with WorkerClient(WorkerOptions("http://gpu.example"), name="tests") as worker:
        with pytest.raises(WorkerFailure):
            await worker.status(start=True)
        assert not await is_better(worker, snapshot, spans, ["zebra"], ["a + b"], deadline_ms=60_000)

"""A slow parse delays only requests that need the tree."""

from lsp_server.documents.document import Document, Edit
from lsp_server.documents.positions import Encoding
from lsp_server.syntax.parsing import Limit, parse

SLOW = "x = ???\n" * 20_000


def slow_document() -> Document:
    return Document("file:///slow.py", "python", 0, SLOW)


def test_slow_text_is_parsed_by_a_job() -> None:
    document = slow_document()
    job = document.parse_job()
    assert document.snapshot(quick=True).tree is None
    job.run()
    assert document.take(job)
    assert job.tree is not None
    assert document.snapshot(quick=True).tree is job.tree


def test_an_edit_ends_the_job_and_its_tree_is_not_used() -> None:
    document = slow_document()
    job = document.parse_job()
    document.apply([Edit((0, 0), (0, 0), "y")], 1, Encoding.UTF16)
    job.run()
    assert job.tree is None
    assert not document.take(job)


def test_a_parse_ends_at_its_limit() -> None:
    limit = Limit(0.001)
    assert parse("python", SLOW, limit=limit) is None
    assert limit.reached

"""The model does not see the markers of other holes, because it would copy them."""

import asyncio
from dataclasses import dataclass

from inference.messages import Hole, Snippet, Text
from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import Budget
from lsp_server.inline import InlineRequest
from lsp_server.inline.suggestion import Cursor
from lsp_server.worker.paths import WorkerPaths
from tests.lsp_server.inline.services import inline_service
from tests.lsp_server.lsp.listening import Listening

URI, MARKER = "file:///a.py", "<x>"
BUDGET = Budget(candidates=1, deadline_ms=60_000, max_steps=1)
CONTEXT = (Snippet("b.py", "d = <x>\n"),)


@dataclass
class Workers:
    """The one worker that there is."""

    client: Listening


async def gather(*_: object) -> tuple[Snippet, ...]:
    return CONTEXT


def check_shown(worker: Listening, before: str, after: str) -> None:
    (request,) = worker.asked
    first, hole, last = request.segments
    assert isinstance(hole, Hole)
    assert (first, last) == (Text(before), Text(after))
    assert request.context == (Snippet("b.py", "d = _\n"),)


async def test_while_typing(resident: WorkerPaths) -> None:
    document = Document(URI, "python", 1, "a = <x>\nb = \nc = <x>\n")
    async with Listening() as worker:
        service = inline_service(document, Workers(worker), gather)
        service.opened(URI)
        answer = service.ask(URI, InlineRequest(Cursor(12), BUDGET.from_now(), MARKER, invoked=True))
        assert isinstance(answer, asyncio.Future)  # nothing is known yet
        await answer
        service.closed(URI)
        check_shown(worker, "a = _\nb = ", "\nc = _\n")

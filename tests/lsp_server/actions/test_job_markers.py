"""The markers of other holes are not what the model goes by."""

from inference.messages import Hole, Snippet, Text
from lsp_server import carve
from lsp_server.actions.job import Job
from lsp_server.actions.outcome import NotDone
from lsp_server.actions.tasks import Task
from lsp_server.document import Document
from lsp_server.filling import Effort
from lsp_server.worker.paths import WorkerPlace
from tests.lsp_server.listening import Listening


async def test_a_job_shows_no_marker_to_the_model(resident: WorkerPlace) -> None:
    snapshot = Document("file:///a.py", "python", 1, "a = <x>\nb = <x>\nc = ???\n").snapshot()
    job = Job(Task.FILL_HOLE, snapshot, tuple(carve.markers(snapshot, "<x>")[1:]), marker="<x>")
    async with Listening() as worker:
        try:
            texts = await job.texts(worker, Effort(1, 60_000, 1), None, (Snippet("b.py", "d = <x>\n"),))
        except NotDone:
            texts = ()
    (request,) = worker.asked
    first, hole, last = request.segments
    assert isinstance(hole, Hole)
    assert (first, last) == (Text("a = _\nb = "), Text("\nc = ???\n"))
    assert request.context == (Snippet("b.py", "d = _\n"),)
    assert "<x>" not in "".join(texts)

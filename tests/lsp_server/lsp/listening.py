"""Records the requests to the real worker."""

from inference.messages import InfillRequest
from lsp_server.worker import WorkerAnswer, WorkerClient, WorkerOptions
from lsp_server.worker.exchange import OnDraft


class Listening(WorkerClient):
    """A client of the real worker that keeps what it asks."""

    def __init__(self) -> None:
        super().__init__(WorkerOptions(), name="tests")
        self.asked: list[InfillRequest] = []

    async def infill(self, request: InfillRequest, on_draft: OnDraft | None = None) -> WorkerAnswer:
        self.asked.append(request)
        return await super().infill(request, on_draft)

"""Records the requests to the real worker."""

from inference.messages import Request
from lsp_server.worker import Deadline, OnDraft, WorkerAnswer, WorkerClient, WorkerOptions


class Listening(WorkerClient):
    """A client of the real worker that keeps what it asks."""

    def __init__(self) -> None:
        super().__init__(WorkerOptions(), name="tests")
        self.asked: list[Request] = []

    async def ask(
        self, request: Request, on_draft: OnDraft | None = None, deadline: Deadline | None = None
    ) -> WorkerAnswer:
        self.asked.append(request)
        return await super().ask(request, on_draft, deadline)

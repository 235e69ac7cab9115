"""The client of the resident worker: finds or starts it, sends requests, and replaces it if it dies. No LSP types."""

from inference.messages import WorkerOptions
from lsp_server.worker.client import ClientState, OnDraft, WorkerAnswer, WorkerClient
from lsp_server.worker.failure import WorkerError

__all__ = [
    "ClientState",
    "OnDraft",
    "WorkerAnswer",
    "WorkerClient",
    "WorkerError",
    "WorkerOptions",
]

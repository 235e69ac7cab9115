"""The client of the resident worker: find it or start it, ask it, lose it and start it again. No LSP types."""

from lsp_server.worker.client import WorkerClient
from lsp_server.worker.failure import WorkerFailure
from lsp_server.worker.link import Fill
from lsp_server.worker.paths import WorkerOptions
from lsp_server.worker.state import ClientState

__all__ = ["ClientState", "Fill", "WorkerClient", "WorkerFailure", "WorkerOptions"]

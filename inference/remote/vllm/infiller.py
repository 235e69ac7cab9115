"""Fills holes by asking one vLLM server; its requests run side by side."""

from inference.engine.canvas import prompt
from inference.messages import InfillRequest
from inference.remote.vllm.canvas_search import Model
from inference.remote.vllm.client import Client
from inference.remote.vllm.infilling import RemoteInfilling
from inference.remote.vllm.server import Served


class VllmInfiller:
    """A served model, as the worker knows it. See `serving.infiller.RemoteInfiller`."""

    dtype = ""
    """The server does not say."""
    note = ""

    def __init__(self, client: Client, place: str, served: Served, model: Model) -> None:
        """`place` is the server's host and port."""
        self._client, self._served, self._model = client, served, model
        self.model, self.device = served.name, place
        self.context_tokens = prompt.context_tokens(model.vocabulary, model.properties)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> RemoteInfilling:
        """The work on a request. `deadline` is in `time.monotonic()` seconds. Raises RequestError."""
        return RemoteInfilling(self._client, self._served.name, self._model, request, deadline)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

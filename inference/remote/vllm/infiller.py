"""Fills holes by asking one vLLM server; its requests run side by side."""

import asyncio
import logging

from inference.engine.canvas import prompt
from inference.messages import InfillRequest
from inference.remote import meeting
from inference.remote.client import Client
from inference.remote.meeting import ServedInfiller, Watched
from inference.remote.vllm import files, server
from inference.remote.vllm.canvas_search import Model
from inference.remote.vllm.infilling import RemoteInfilling
from inference.remote.vllm.server import Served
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)


class VllmInfiller(ServedInfiller):
    """A model that a vLLM serves, as the worker knows it."""

    def __init__(self, client: Client, place: str, arguments: WorkerArguments, served: Served, model: Model) -> None:
        """`place` is the server's host and port."""
        super().__init__(client, place, arguments)
        self._know(served, model)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Watched:
        """The work on a request. `deadline` is in `time.monotonic()` seconds. Raises RequestError."""
        steps = RemoteInfilling(self._client, self._served.name, self._model, request, deadline)
        return Watched(steps, self._meeting.refused)

    def _know(self, served: Served, model: Model) -> None:
        self._served, self._model = served, model
        self.model = meeting.shown(served.name)
        self.context_tokens = prompt.context_tokens(model.vocabulary, model.properties)

    async def _meet_again(self) -> None:
        served = await server.meet(self._client, self._arguments.server_model)
        if served != self._served:
            tokenizer, url = self._arguments.server_tokenizer, self._client.url
            self._know(served, await asyncio.to_thread(files.load, served, tokenizer, url))
            log.info("another server answers at %s: it serves %s", url, self.model)

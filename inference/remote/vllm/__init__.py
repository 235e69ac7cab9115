"""Asks a vLLM that serves DiffusionGemma with pinned canvases. What was seen of vLLM 0.32, by asking and in its source:

- A canvas is `max_tokens` = `diffusion_canvas_length` rows behind the prompt, at most as wide as the served one. All
  of it comes at once, also with `stream`: no drafts. Closing the connection aborts it.
- The output is the likeliest token of every row, pinned rows too, where it may differ from the pin (trial.py).
- The bound on entropy, the stop rule and stability count all rows; pinned ones feed nothing back to self-conditioning.
  So no canvas is wider than what it has to show (canvas_search.py), and fills differ from our own engine's.
- Temperatures follow the server's `max_denoising_steps`, and a higher `diffusion_max_steps` is clamped without a word.
- The first step's noise is ours; later noise is random tokens, which a checkpoint that knows a mask token alone has
  never seen. Such a canvas is unmasked from here, read by read (trial.py).
- Read-only requests give log-probabilities at temperature 1 over all tokens: the 20 likeliest of each row, or up to 128
  named ones (canvas_search.py).
- The server cannot be told which tokens a row may become. We choose among the likeliest (trial.py).
- What it refuses, and what ends its engine, stands in wire.py. What it serves, it says when refusing (served.py).
"""

import asyncio
import logging

from inference.engine.canvas import prompt
from inference.messages import InfillRequest
from inference.models.family import OnProgress
from inference.remote import meeting
from inference.remote.address import MODEL
from inference.remote.client import Client
from inference.remote.meeting import MEETING_S, ServedInfiller
from inference.remote.vllm.canvas_search import Model
from inference.remote.vllm.infilling import RemoteInfilling
from inference.remote.vllm.served import CanvasModel, load, meet
from inference.serving.infiller import RemoteInfiller
from inference.serving.startup import WorkerArguments


async def connect(
    arguments: WorkerArguments, on_progress: OnProgress, *, token: str = "", limit_s: float = MEETING_S
) -> RemoteInfiller:
    """The server that `arguments.model` names, with this `token`. Raises ModelError, also after `limit_s`."""
    async with meeting.connecting(arguments, MODEL, token, on_progress) as (client, at):
        served = await meeting.in_time(meet(client, arguments.server_model), client.url, limit_s)
        on_progress(0.5, "reading the tokenizer")
        model = await asyncio.to_thread(load, served, arguments.server_tokenizer, client.url)
    return VllmInfiller(client, at.place, arguments, served, model)


log = logging.getLogger(__name__)


class VllmInfiller(ServedInfiller):
    """A model that a vLLM serves, as the worker knows it."""

    def __init__(
        self, client: Client, place: str, arguments: WorkerArguments, served: CanvasModel, model: Model
    ) -> None:
        """`place` is the server's host and port."""
        super().__init__(client, place, arguments)
        self._know(served, model)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> RemoteInfilling:
        return RemoteInfilling(self._client, self._served.name, self._model, request, deadline, self._refused)

    def _know(self, served: CanvasModel, model: Model) -> None:
        self._served, self._model = served, model
        self.model = meeting.shown(served.name)
        self.context_tokens = prompt.context_tokens(model.vocabulary, model.properties)

    async def _meet_again(self) -> None:
        served = await meet(self._client, self._arguments.server_model)
        if served != self._served:
            tokenizer, url = self._arguments.server_tokenizer, self._client.url
            self._know(served, await asyncio.to_thread(load, served, tokenizer, url))
            log.info("another server answers at %s: it serves %s", url, self.model)

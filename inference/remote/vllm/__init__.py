"""Asks a vLLM that serves DiffusionGemma with pinned canvases. What was seen of vLLM 0.32, by asking and in its source:

- A canvas is `max_tokens` = `diffusion_canvas_length` rows behind the prompt, at most as wide as the served one. All
  of it comes at once, also with `stream`: no drafts. Closing the connection aborts it.
- The output is the likeliest token of every row, pinned rows too, where it may differ from the pin (canvas.py).
- The bound on entropy, the stop rule and stability count all rows; pinned ones feed nothing back to self-conditioning.
  So no canvas is wider than what it has to show, and fills differ from our own engine's.
- Temperatures follow the server's `max_denoising_steps`, and a higher `diffusion_max_steps` is clamped without a word.
- The first step's noise is ours; later noise is random tokens, which a checkpoint that knows a mask token alone has
  never seen. Such a checkpoint is refused.
- Read-only requests give log-probabilities at temperature 1 over all tokens: the 20 likeliest of each row, or up to 128
  named ones (canvas.py).
- What it refuses, and what ends its engine, stands in wire.py. What it serves, it says when refusing (checkpoint.py).
"""

import asyncio
import logging

from inference.engine.canvas import prompt
from inference.messages import InfillRequest
from inference.models.family import OnProgress
from inference.remote import served
from inference.remote.address import MODEL
from inference.remote.http import Client
from inference.remote.served import HANDSHAKE_S, ServedInfiller
from inference.remote.vllm.canvas import Model
from inference.remote.vllm.checkpoint import CanvasModel, load, look
from inference.remote.vllm.infilling import CanvasInfilling
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)


async def connect(
    arguments: WorkerArguments, on_progress: OnProgress, *, token: str = "", limit_s: float = HANDSHAKE_S
) -> ServedInfiller:
    """The server that `arguments.model` names, with this `token`. Raises ModelError, also after `limit_s`."""
    async with served.connecting(arguments, MODEL, token=token, limit_s=limit_s) as client:
        on_progress(0.1, f"asking {client.at.place}")
        found = await look(client, arguments.server_model)
        on_progress(0.5, "reading the tokenizer")
        model = await asyncio.to_thread(load, found, arguments.server_tokenizer, client.url)
    return VllmInfiller(client, arguments, found, model)


class VllmInfiller(ServedInfiller):
    """A model that a vLLM serves, as the worker knows it."""

    def __init__(self, client: Client, arguments: WorkerArguments, found: CanvasModel, model: Model) -> None:
        super().__init__(client, arguments)
        self._know(found, model)

    def _fill(self, request: InfillRequest, deadline: float | None) -> CanvasInfilling:
        return CanvasInfilling(self, self._model, request, deadline)

    def _know(self, found: CanvasModel, model: Model) -> None:
        self._found = found
        self._model = model
        self.model = served.shown(found.name)
        self.context_tokens = prompt.context_tokens(model.vocabulary, model.properties)

    async def _look_again(self) -> None:
        found = await look(self.client, self._arguments.server_model)
        if found != self._found:
            tokenizer = self._arguments.server_tokenizer
            self._know(found, await asyncio.to_thread(load, found, tokenizer, self.client.url))
            log.info("another server answers at %s: it serves %s", self.client.url, self.model)

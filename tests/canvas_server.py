"""A real HTTP test server that answers like a vLLM with a DiffusionGemma model, using our own weights and engine.

It replaces vLLM in tests that need many canvases quickly, or a server that misbehaves on purpose; `tests/served` asks a
real one the same things. Requests, answers and refusals have the shapes and words that vLLM 0.32 was seen to use.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, field
from typing import Any

import torch

from inference.engine.engine import Engine
from tests.http_server import HttpRequest, HttpServer, listening, response

Answer = tuple[int, dict[str, str], dict[str, Any]]
"""Status, headers and body."""


@dataclass
class CanvasServer(HttpServer):
    """Serves `engine`'s model with canvases of `canvas_tokens`; without one `instead` answers.

    `instead` may answer a request before the model does. `change` may alter the ids of a canvas as they are answered.
    `knows_pins` False: as a vLLM that is too old.
    """

    engine: Engine | None
    canvas_tokens: int = 128
    max_model_len: int = 2048
    name: str = "infill"
    root: str = ""
    version: str = "0.32.0"
    knows_pins: bool = True
    instead: Callable[[dict[str, Any]], Answer | None] = lambda _: None
    change: Callable[[dict[str, Any], list[int]], list[int]] = lambda _, ids: ids
    asked: list[dict[str, Any]] = field(default_factory=list)
    _computing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status, headers, answer = await self.unless_gone(reader, self._answer(request.path, request.json))
        writer.write(response(status, answer, headers))

    async def _answer(self, path: str, body: dict[str, Any]) -> Answer:
        if path == "/v1/models":
            return 200, {}, {"data": [{"id": self.name, "root": self.root, "max_model_len": self.max_model_len}]}
        if path == "/version":
            return 200, {}, {"version": self.version}
        self.asked.append(body)
        if refused := self._refused(body):
            return 400, {}, {"error": {"message": refused, "type": "BadRequestError", "code": 400}}
        await self.hold.wait()
        if (other := self.instead(body)) is not None:
            return other
        async with self._computing:
            return 200, {}, await asyncio.to_thread(self._computed, body)

    def _refused(self, body: dict[str, Any]) -> str:
        """What vLLM refuses, in its words; empty where it answers."""
        if not self.knows_pins:
            return ""
        xargs = body["vllm_xargs"]
        width, seed = xargs.get("diffusion_canvas_length"), xargs["diffusion_seed_canvas"]
        if width is not None and not 0 < width <= self.canvas_tokens:
            return "diffusion_canvas_length must be a positive integer no larger than the served canvas."
        if len(seed) != (width or self.canvas_tokens):
            return f"diffusion_seed_canvas must hold exactly {width or self.canvas_tokens} ids, got {len(seed)}."
        if not all(0 <= number < len(seed) for number in xargs["diffusion_pinned"]):
            return "diffusion_pinned positions must lie inside the canvas."
        if len(body["prompt"]) + body["max_tokens"] > self.max_model_len:
            return f"This model's maximum context length is {self.max_model_len} tokens."
        if set(body) & {"seed", "min_p", "logit_bias", "allowed_token_ids"} or body["temperature"] != 1.0:
            return "The temperature, min_p, seed, ... sampling parameters are not yet supported with diffusion models."
        return ""

    @torch.inference_mode()
    def _computed(self, body: dict[str, Any]) -> dict[str, Any]:
        """A canvas, denoised in so many steps; what is not likely becomes random tokens again, as in vLLM."""
        xargs = body["vllm_xargs"]
        seed = torch.tensor(xargs["diffusion_seed_canvas"])[None] if self.knows_pins else torch.zeros(1, 1, dtype=int)
        pinned, rows = torch.tensor(xargs["diffusion_pinned"], dtype=torch.long), torch.arange(seed.shape[1])
        current, logits = seed.clone(), torch.zeros(0)
        assert self.engine is not None
        with closing(self.engine.loaded.adapter.open_prefix(body["prompt"])) as context:
            for _ in context.prefill():
                pass
            for _ in range(xargs.get("diffusion_max_steps") or 1):
                logits = context.predict(current, rows)
                sure, likeliest = logits.softmax(-1).max(-1)
                noise = torch.randint(0, logits.shape[-1], likeliest.shape)
                current = torch.where(sure > 0.5, likeliest, noise)[None]
                current[0, pinned] = seed[0, pinned] if self.knows_pins else current[0, pinned]
        ids = self.change(body, logits.argmax(-1).tolist())
        known = logits.log_softmax(-1)
        named = body.get("logprob_token_ids")
        best = known.topk(1 if named else body["logprobs"]).indices
        shown = torch.cat([best, torch.tensor([named] * len(best))], 1) if named else best
        rows = zip(known, shown.tolist(), strict=True)
        top = [{f"token_id:{token}": float(row[token]) for token in some} for row, some in rows]
        choice = {"token_ids": ids, "finish_reason": "length", "logprobs": {"top_logprobs": top}}
        return {"choices": [choice]}


def canvas_server(engine: Engine, **settings: Any) -> AbstractAsyncContextManager[CanvasServer]:
    return listening(CanvasServer(engine, **settings))


def recording_server(certified: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[CanvasServer]:
    """One that records all and fills nothing; over TLS where it has a certificate."""
    refused = (400, {}, {"error": {"message": "this server only records"}})
    server = CanvasServer(None, canvas_tokens=64, name="gemma", instead=lambda _: refused)
    return listening(server, certified=certified, host="localhost")

"""Finds out a server's models and whether it can hold pins, without making it compute anything."""

import re
from dataclasses import dataclass

import msgspec

from inference.models.family import ModelError
from inference.remote import answers, meeting
from inference.remote.answers import AnswerError
from inference.remote.client import Client
from inference.remote.pause import ServerError
from inference.remote.vllm import wire
from inference.remote.vllm.wire import CompletionRequest, DiffusionArguments

_CANVAS = re.compile(r"diffusion_seed_canvas must hold exactly (\d+) ids")
_KNOWS_PINS = re.compile(r"diffusion_(seed_canvas|pinned)")
_START_IT = "start a vLLM 0.32 or later with a DiffusionGemma checkpoint: see inference/remote/server.md"


@dataclass(frozen=True)
class CanvasModel:
    """A model on a server. `canvas_tokens` is the widest canvas it accepts, `context_tokens` prompt and canvas at most.

    `root` is the folder or hub id that the server was started with, `version` the server's; empty: not known.
    """

    name: str
    root: str
    version: str
    canvas_tokens: int
    context_tokens: int | None


async def meet(client: Client, wanted: str | None) -> CanvasModel:
    """The server's model named `wanted`, None: its only model. Raises ModelError."""
    try:
        listed = answers.models(await client.get("/v1/models"))
        model = meeting.chosen(listed, wanted, client.url, "server.model")
        version = await _version(client)
        canvas = await _canvas_tokens(client, model.id, version)
    except AnswerError as error:
        raise ModelError(f"{client.url} does not answer as vLLM does ({error}); {_START_IT}") from error
    except ServerError as error:
        raise ModelError(str(error)) from error
    return CanvasModel(model.id, model.root or "", version, canvas, model.max_model_len)


async def _version(client: Client) -> str:
    """The server's version; empty if it does not say, for example behind a router."""
    try:
        return wire.version(await client.get("/version"))[:50]
    except (AnswerError, ServerError):
        return ""


async def _canvas_tokens(client: Client, name: str, version: str) -> int:
    """The width of the served canvas, from the server's refusal of an impossible one. Raises ModelError.

    A vLLM without pins, or with a model of another kind, ignores the canvas and answers with a token.
    """
    impossible = CompletionRequest(name, (1,), 1, DiffusionArguments((), (-1,)), logprobs=1)
    try:
        await client.post("/v1/completions", msgspec.json.encode(impossible))
    except ServerError as error:
        if found := _CANVAS.search(str(error)):
            return int(found[1])
        if not _KNOWS_PINS.search(str(error)):
            raise
        raise ModelError(f"{client.url} does not say how wide its canvas is ({error})") from error
    said = f"vLLM {version}" if version else "the server"
    raise ModelError(
        f"{client.url}: {said} takes no pinned canvas for {name}: it is too old, or the model is no DiffusionGemma; "
        + _START_IT
    )

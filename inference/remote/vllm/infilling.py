"""Works on one request: plans its canvases, has a server fill them one after another, and reports the results.

Also finds out what a server serves, without making it compute anything, and reads this machine's tokenizer and settings
of that model. No weights.
"""

import asyncio
import logging
import random
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from inference.engine.canvas import answered, prompt
from inference.engine.canvas.answered import Canvases, RankedFill
from inference.engine.canvas.layout import OPEN, Plan
from inference.engine.canvas.plan import Planner
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.search.length import Effort
from inference.messages import Request
from inference.models import catalogue, checkpoint, checkpoint_files, downloads
from inference.models.family import ModelError
from inference.models.properties import CanvasTokens, NoiseKind, Properties
from inference.remote import address, served
from inference.remote.http import AnswerError, ServedModel, ServerError
from inference.remote.served import RemoteEvent, RemoteWork, ServedInfiller
from inference.remote.vllm import wire
from inference.remote.vllm.canvas import CanvasSearch, Model

log = logging.getLogger(__name__)
_CANVAS = re.compile(r"diffusion_seed_canvas must hold exactly (\d+) ids")
_KNOWS_PINS = re.compile(r"diffusion_(seed_canvas|pinned)")
_START_IT = "start a vLLM 0.32 or later with a DiffusionGemma checkpoint: see inference/remote/server.md"
_LINE_STEPS = 8
_QUICK_STEPS = 4
"""For a checkpoint without settings, the same as models/diffusion_gemma assumes for a released one."""


class CanvasInfilling(RemoteWork):
    """The work on one request, canvas after canvas. Canvases come all at once, so there are no drafts."""

    def __init__(self, server: ServedInfiller, model: Model, request: Request, deadline: float | None) -> None:
        super().__init__(server, request, deadline)
        self._model = model
        self._noise = random.Random(self.request.seed)  # noqa: S311 - noise, not a secret
        self._effort = Effort.of(self.request, model.properties)
        self._canvases: Canvases | None = None
        self._typed: dict[int, str] = {}
        """The text typed before the canvases were planned, by the number of the hole."""

    def _pin(self, hole: int, text: str) -> None:
        if self._canvases is None:
            self._typed[hole] = text
        else:
            self._canvases.pin(hole, text)

    async def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        """Plans in threads, because the text may be long."""
        planner = await asyncio.to_thread(Planner, self._model.vocabulary, self._model.properties, self.request)
        for hole, text in self._typed.items():
            planner.pin_start(hole, text)
        canvases = self._canvases = Canvases(planner)
        while not canvases.are_all and not self._late():
            group, earlier = await asyncio.to_thread(canvases.begin)
            plan = await asyncio.to_thread(_plan, planner, group, earlier)
            found = await self._canvas(canvases, plan, earlier)
            holes = planner.request.holes[group.start : group.stop]
            found = [each for each in found if answered.agrees(each.texts, holes)]
            if not found and not canvases.is_amended:  # asking again would bring the same
                break
            canvases.add(group, found)
        holes = planner.request.holes
        most = self._effort.candidates
        complete = not self._late()
        ms = self.counters.ms()
        for candidate in answered.candidates(self.request.id, canvases.done, holes, most, ms, complete=complete):
            yield candidate
        yield self._done()

    async def _canvas(self, canvases: Canvases, plan: Plan, earlier: Sequence[str]) -> list[RankedFill]:
        """The answers for one canvas behind the `earlier` fills, best first; none if other text was typed meanwhile."""
        self.counters.canvases += 1
        search = CanvasSearch(
            self._server.client, self._model, plan, noise=self._noise, effort=self._effort, counters=self.counters
        )
        searching = asyncio.create_task(search.run(self._deadline, quick=self.request.quick), name="canvases")
        searching.add_done_callback(lambda _: self.news.set())
        try:
            while not searching.done():
                await self.news.wait()
                self.news.clear()
                is_amended = canvases.has_news and not searching.done()
                if is_amended and not canvases.go_on(plan.group, earlier, lambda *_: False):
                    return []
            return searching.result()
        finally:
            searching.cancel()
            await asyncio.wait([searching])


def _plan(planner: Planner, group: range, earlier: Sequence[str]) -> Plan:
    """A canvas, with everything computed once for it: the possible starts of a row involve the whole vocabulary."""
    plan = planner.plan(group, earlier)
    for hole in plan.holes:
        hole.may_begin(OPEN)
    return plan


class _Config(msgspec.Struct):
    model_type: str = ""
    canvas_length: CanvasTokens | None = None


def load(found: ServedModel, canvas_tokens: int, wanted: str | None, url: str) -> Model:
    """The tokens and settings of a served model, from the folder or hub id `wanted`, or its own. Raises ModelError."""
    folder = _folder(found, wanted, url)
    config = checkpoint_files.read_json_if_any(folder / "config.json")  # a tokenizer is enough
    properties = checkpoint.stated_properties(folder) or _assumed(config)
    if properties.corruption == NoiseKind.MASK:
        raise ModelError(f"{url}: {found.id} knows only a mask token, and vLLM fills canvases with random tokens")
    properties = _within(properties, found, canvas_tokens, url)
    vocabulary = Vocabulary(checkpoint.Checkpoint(str(folder), folder, config, properties).tokenizer(), [])
    vocabulary.prepare()
    return Model(found.id, vocabulary, properties)


def _folder(found: ServedModel, wanted: str | None, url: str) -> Path:
    """The tokenizer's folder. The server's own path counts only if that is on this machine. Raises ModelError."""
    if wanted:
        return checkpoint.folder_of(wanted)
    try:
        root = found.root or ""
        if catalogue.is_hub_id(root):
            return downloads.require(root)
        if not (address.parse(url).is_here and Path(root).is_absolute()):
            raise ModelError(f"{url} does not name a checkpoint of this machine")
        return checkpoint.folder_of(root)
    except ModelError as error:
        raise ModelError(
            f"{error}. {url} serves {found.id}; its tokenizer has to be here as well: set server.tokenizer or "
            "--server-tokenizer to a folder with its tokenizer.json (and infill.json, where it has one)"
        ) from error


def _assumed(config: dict[str, Any]) -> Properties:
    """The settings of a checkpoint without `infill.json`: those of a released one."""
    try:
        width = msgspec.convert(config, _Config).canvas_length or 256
    except msgspec.ValidationError:
        width = 256
    return Properties(canvas_tokens=width, prompt="chat", line_steps=_LINE_STEPS, quick_steps=_QUICK_STEPS)


def _within(properties: Properties, found: ServedModel, canvas_tokens: int, url: str) -> Properties:
    """The same, with canvases and prefixes that the server accepts. Raises ModelError if it accepts next to nothing."""
    canvas = min(properties.canvas_tokens, canvas_tokens)
    context = found.max_model_len or properties.max_prefix_tokens + canvas
    least = 4
    if canvas < least or context <= canvas:
        raise ModelError(
            f"{url}: {found.id} is served with a canvas of {canvas_tokens} tokens and {context} in all, "
            "which leaves no room; raise canvas_length in --diffusion-config, or --max-model-len"
        )
    prefix = min(properties.max_prefix_tokens, context - canvas)
    limited = {
        "canvas_tokens": canvas,
        "max_prefix_tokens": prefix,
        "suffix_tokens": min(properties.suffix_tokens, canvas),
    }
    return msgspec.structs.replace(properties, **limited)


class VllmInfiller(ServedInfiller):
    """A model that a vLLM serves, as the worker knows it."""

    _found: tuple[ServedModel, int] | None = None

    async def look(self) -> None:
        """Finds out the server's model, and reads this machine's tokenizer for it."""
        url = self.client.url
        try:
            model = await self.listed_model()
            found = model, await self._canvas_tokens(model.id)
        except AnswerError as error:
            raise ModelError(f"{url} does not answer as vLLM does ({error}); {_START_IT}") from error
        except ServerError as error:
            raise ModelError(str(error)) from error
        if found == self._found:
            return
        tokenizer = self._arguments.server_tokenizer
        self._model = await asyncio.to_thread(load, *found, tokenizer, url)
        self.model = served.shown(self._model.name)
        if self._found is not None:
            log.info("another server answers at %s: it serves %s", url, self.model)
        self._found = found
        self.context_tokens = prompt.context_tokens(self._model.vocabulary, self._model.properties)

    def infill(self, request: Request, *, deadline: float | None = None) -> CanvasInfilling:
        return CanvasInfilling(self, self._model, request, deadline)

    async def _canvas_tokens(self, name: str) -> int:
        """The width of the served canvas, from the refusal of an impossible one. Raises ModelError and ServerError."""
        url = self.client.url
        impossible = {"diffusion_seed_canvas": (), "diffusion_pinned": (-1,)}
        try:
            await self.client.post("/v1/completions", wire.request(name, (1,), 1, impossible, logprobs=1))
        except ServerError as error:
            if found := _CANVAS.search(str(error)):
                return int(found[1])
            if not _KNOWS_PINS.search(str(error)):
                raise
            raise ModelError(f"{url} does not say how wide its canvas is ({error})") from error
        raise ModelError(
            f"{url} takes no pinned canvas for {name}: it is too old, or this is not a DiffusionGemma; {_START_IT}"
        )

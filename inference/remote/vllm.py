"""Fills holes by asking a vLLM that serves DiffusionGemma with pinned canvases: `POST /v1/completions`.

A request guesses lengths for each of its canvases, has the server denoise one canvas per length side by side, and ranks
the results. No weights are read here, but the model's tokenizer and settings are. What was seen of vLLM 0.32, by asking
and in its source:

- A canvas is `max_tokens` = `diffusion_canvas_length` rows after the prompt, at most as wide as the served one. All
  of it comes at once, also with `stream`: no drafts. Closing the connection aborts it.
- The output is the likeliest token of every row, pinned rows too, where it may differ from the pin.
- The bound on entropy, the stop rule and stability count all rows; pinned ones feed nothing back to self-conditioning.
  So no canvas is wider than what it has to show, and fills differ from our own engine's.
- Temperatures follow the server's `max_denoising_steps`, and a higher `diffusion_max_steps` is clamped without a word.
- The first step's noise is ours; later noise is random tokens, which a checkpoint that knows a mask token alone has
  never seen. Such a checkpoint is refused.
- Read-only requests give log-probabilities at temperature 1 over all tokens: the 20 likeliest of each row, or up to 128
  named ones. That is enough to choose among them here, for vLLM cannot be told which tokens a row may become: it
  refuses `logit_bias`, and `diffusion_constrained` holds for a whole canvas.
- It gives no causal likelihood of a fill. So the score is how likely the first tokens after a hole are given the fill,
  read on a canvas on which they are open. On 62 tuning lines, 4 lengths each, that chose better (edit similarity 0.368)
  than the likeliest length (0.308).
- It refuses a request for a diffusion model that has `seed`, `min_p`, `min_tokens`, `logit_bias`, `bad_words`,
  `allowed_token_ids`, structured output or a temperature other than 1; `prompt_logprobs` and `echo` with `logprobs` end
  its engine for everybody. Its defaults come from the served folder, so requests state all that matters.
- How wide its canvas is, it says when it refuses an impossible one.
"""

import asyncio
import logging
import math
import random
import re
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from inference.engine.canvas import prompt, results
from inference.engine.canvas.layout import OPEN_ID, CanvasHole, CanvasPlan, ComposedCanvas
from inference.engine.canvas.plan import CanvasPlanner
from inference.engine.canvas.results import FilledCanvas, RankedFill, RequestProgress
from inference.engine.canvas.vocabulary import LINE_BREAKS, Vocabulary
from inference.engine.denoising import length
from inference.engine.denoising.length import DenoisingBudget
from inference.models import catalogue, checkpoint, checkpoint_files, model_store
from inference.models.family import ModelError
from inference.models.infill_config import CanvasTokens, HoleNoise, InfillConfig
from inference.remote import address, server_backend
from inference.remote.http import AnswerError, ServerError, decode_json
from inference.remote.server_backend import RemoteBackend, RemoteRun, ServedModel
from inference.serving.scheduler import Job, JobEvent

log = logging.getLogger(__name__)
_LENGTHS_QUICK = 2
_LENGTHS_OF_A_LINE = 8
_LENGTHS_OF_SEVERAL_LINES = 3
"""How many lengths to try for one answer. Each is a separate canvas in the server's batch."""
_SUFFIX_TOKENS = 8
_LENGTH_WEIGHT = 0.075
_MIN_LOGPROB = -20.0
"""The log-probability of tokens the server does not list."""
_MAX_LOGPROBS = 20
"""The likeliest tokens of a row that one may request, by vLLM's own default (`--max-logprobs`)."""

_TOKEN = re.compile(r"token_id:(\d{1,9})")
_CANVAS = re.compile(r"diffusion_seed_canvas must hold exactly (\d+) ids")
_KNOWS_PINS = re.compile(r"diffusion_(seed_canvas|pinned)")
_MIN_CANVAS = 4
_LINE_STEPS = 8
_QUICK_STEPS = 4
"""For a checkpoint without settings, the same as models/diffusion_gemma assumes for a released one."""


Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
"""A number of tokens, or the id of one."""
LogProb = Annotated[float, Meta(le=1e-3)]
"""A log-probability; rounding may lift it a little above 0."""


class _Logprobs(msgspec.Struct, frozen=True):
    top_logprobs: list[dict[str, LogProb] | None]


class _Choice(msgspec.Struct, frozen=True):
    token_ids: list[Count]
    logprobs: _Logprobs
    finish_reason: str | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: Annotated[list[_Choice], Meta(min_length=1, max_length=1)]


class _Config(msgspec.Struct, frozen=True):
    """Of config.json: the width that the model was trained with, whatever a server says."""

    canvas_length: CanvasTokens | None = None


class CanvasAnswer(msgspec.Struct, frozen=True):
    """vLLM's token of each row, a guess even where one is pinned, and log-probabilities of some tokens of each."""

    ids: list[int]
    log_probabilities: list[dict[int, float]]


def parse_canvas_answer(body: bytes, rows: int) -> CanvasAnswer:
    """The answer for a canvas with this many rows. Raises AnswerError."""
    choice = decode_json(body, _Completion).choices[0]
    logprobs = [_by_token(row) for row in choice.logprobs.top_logprobs]
    if len(choice.token_ids) != rows or len(logprobs) != rows:
        raise AnswerError(f"{len(choice.token_ids)} tokens and {len(logprobs)} rows of probabilities for {rows} rows")
    return CanvasAnswer(choice.token_ids, logprobs)


def _by_token(row: dict[str, float] | None) -> dict[int, float]:
    """Log-probabilities by token id, for the keys that vLLM writes as `token_id:N`."""
    by_id: dict[int, float] = {}
    for name, value in (row or {}).items():
        match = _TOKEN.fullmatch(name)
        if match is None:
            raise AnswerError(f"a token is called {name[:50]!r} and not by its id")
        by_id[int(match[1])] = value
    return by_id


def _request_body(
    model: str, prompt: Sequence[int], rows: int, arguments: Mapping[str, object], **overrides: object
) -> dict[str, object]:
    """A request for one canvas after a prompt, both as token ids, that lists the likeliest tokens of each row.

    `arguments`, in `vllm_xargs`: the rows are `diffusion_seed_canvas`, and `diffusion_pinned` the numbers of those held
    to it. `diffusion_max_steps` is silently clamped to the server's. `diffusion_read_only`: it writes no keys and
    values, and answers at temperature 1. With `logprob_token_ids`, lists these and the likeliest one instead.
    """
    defaults = {
        "model": model,
        "prompt": prompt,
        "max_tokens": rows,
        "vllm_xargs": arguments,
        "logprobs": _MAX_LOGPROBS,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "n": 1,
        "stream": False,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    return defaults | overrides


@dataclass(frozen=True)
class ServedDiffusionModel:
    """A served model: its tokens and its settings."""

    name: str
    vocabulary: Vocabulary
    infill_config: InfillConfig

    def allows_token(self, token: int, hole: CanvasHole, *, is_start: bool) -> bool:
        """Whether a token may appear in a row of this hole; `is_start`: in its first open row."""
        if is_start and hole.allowed_ids is not None:
            return hole.may_begin_with(token)
        if not self.infill_config.first_text_token_id <= token < len(self.vocabulary):
            return False
        value = self.vocabulary.bytes_of([token])  # none of a special token
        return bool(value) and not (hole.single_line and value.startswith(LINE_BREAKS))


class VllmRun(RemoteRun):
    """The work on one request, canvas after canvas. Canvases come all at once, so there are no drafts."""

    def __init__(self, server: RemoteBackend, model: ServedDiffusionModel, job: Job) -> None:
        super().__init__(server, job)
        self._client = server.client
        self._model = model
        self._noise = random.Random(self.request.seed)  # noqa: S311 - noise, not a secret
        """Seeded, because vLLM takes no seed: so the first step is repeatable."""
        self._effort = DenoisingBudget.from_request(self.request, model.infill_config)
        self._plan: CanvasPlan
        self._is_first = True
        """Whether nothing of the current canvas was read yet."""
        self._filled_canvases: list[FilledCanvas] = []
        """The current canvas, filled at each length that was read so far."""

    async def events(self) -> AsyncGenerator[JobEvent, None]:
        """The candidates, best first. Plans in threads, because the text may be long."""
        planner = await asyncio.to_thread(
            CanvasPlanner, self._model.vocabulary, self._model.infill_config, self.request
        )
        canvases = RequestProgress(planner)
        while not canvases.is_complete and not self.job.deadline.is_past:
            group, earlier_fills = await asyncio.to_thread(canvases.next_canvas)
            plan = await asyncio.to_thread(_plan, planner, group, earlier_fills)
            self.counters.canvases += 1
            self._plan = plan
            self._is_first = True
            self._filled_canvases = []
            fills = await self._search()
            if not fills:  # a retry would give the same
                break
            canvases.done[group.start] = fills
        holes = planner.request.holes
        max_candidates = self._effort.candidates
        complete = not self.job.deadline.is_past
        ms = self.counters.ms()
        for candidate in results.combine_canvas_fills(
            self.request.id, canvases.done, holes, max_candidates, ms, complete=complete
        ):
            yield candidate
        yield self._done()

    async def _search(self) -> list[RankedFill]:
        """The fills of the planned canvas, best first; at the deadline, those found by then.

        Raises ServerError if it was never read.
        """
        try:
            async with asyncio.timeout_at(self.job.deadline.time_s):
                canvases = [self._denoise(sizes) for sizes in self._lengths()]
                outcomes = await asyncio.gather(*canvases, return_exceptions=True)
                errors = [error for error in outcomes if error is not None]
                if len(errors) == len(outcomes):
                    raise errors[0]
                for error in errors:
                    if not isinstance(error, ServerError | TimeoutError):
                        raise error
                return await self._ranked()
        except TimeoutError:
            return self._ranked_by(filled.mean_logprob for filled in self._filled_canvases)

    def _lengths(self) -> list[tuple[int, ...]]:
        """The lengths to try, one per hole; at least one for each candidate, some more than once."""
        holes = self._plan.holes
        is_line = all(hole.single_line for hole in holes)
        usual = _LENGTHS_OF_A_LINE if is_line else _LENGTHS_OF_SEVERAL_LINES
        count = max(self._effort.candidates, _LENGTHS_QUICK if self.request.quick else usual)
        if all(hole.min_rows == hole.max_rows for hole in holes):
            lengths = [tuple(hole.max_rows for hole in holes)]
        else:
            lengths = length.candidate_lengths(holes, count)
        return [lengths[index % len(lengths)] for index in range(max(self._effort.candidates, len(lengths)))]

    async def _denoise(self, sizes: Sequence[int]) -> None:
        """Denoises one canvas; drops it if a row got no allowed token."""
        row = self._plan.compose(sizes).with_suffix_cut(self._model.infill_config.suffix_tokens)
        ids = self._initial_rows(row)
        probs = [1.0] * len(ids)
        steps = 0
        if OPEN_ID in ids:
            steps = self._effort.max_steps or self._model.infill_config.sampler.max_steps
            pinned = [row_index for row_index, id_ in enumerate(ids) if id_ != OPEN_ID]
            seed = [self._noise.randrange(len(self._model.vocabulary)) if id_ == OPEN_ID else id_ for id_ in ids]
            answer = await self._read_canvas(seed, pinned, steps=steps)
            if not self._choose(ids, probs, row, answer):
                return
        self._filled_canvases.append(FilledCanvas(ids, probs, row.spans, steps))

    def _initial_rows(self, row: ComposedCanvas) -> list[int]:
        """The initial rows of a canvas. In reworked text, the noised tokens are open."""
        ids = list(row.ids)
        for (_, first, end), hole in zip(row.spans, self._plan.holes, strict=True):
            for row_index, id_ in zip(range(first, end), hole.existing_ids, strict=False):
                if self._noise.random() >= hole.strength:
                    ids[row_index] = id_
        return ids

    def _choose(self, ids: list[int], probs: list[float], row: ComposedCanvas, answer: CanvasAnswer) -> bool:
        """Writes the likeliest allowed token and its probability into each open row. Returns False if a row has none.

        If none of the listed tokens is allowed, a row gets its required start, or the server's own token, with a low
        probability.
        """
        for (_, first, end), hole in zip(row.spans, self._plan.holes, strict=True):
            for row_index in (row_index for row_index in range(first, end) if ids[row_index] == OPEN_ID):
                is_start = row_index == first
                by_logprob = sorted(answer.log_probabilities[row_index].items(), key=lambda item: (-item[1], item[0]))
                allowed = [item for item in by_logprob if self._model.allows_token(item[0], hole, is_start=is_start)]
                own = hole.allowed_ids[0] if is_start and hole.allowed_ids else answer.ids[row_index]
                token, value = allowed[0] if allowed else (own, -math.inf)
                ids[row_index] = token
                probs[row_index] = min(1.0, math.exp(value))
                if not self._model.allows_token(token, hole, is_start=is_start):
                    return False
        return True

    async def _ranked(self) -> list[RankedFill]:
        """All filled canvases, best first. Makes no request for a single one."""
        if len({filled.texts(self._model.vocabulary, self._plan.holes) for filled in self._filled_canvases}) < 2:
            return self._ranked_by(filled.mean_logprob for filled in self._filled_canvases)
        requests = (self._suffix_logprob(filled) for filled in self._filled_canvases)
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        suffix_logprobs = [filled for filled in outcomes if isinstance(filled, float)]
        if len(suffix_logprobs) < len(outcomes):
            suffix_logprobs = [0.0] * len(outcomes)
        return self._ranked_by(map(_score, self._filled_canvases, suffix_logprobs))

    def _ranked_by(self, scores: Iterable[float]) -> list[RankedFill]:
        return results.rank_fills(self._model.vocabulary, self._plan.holes, self._filled_canvases, list(scores))

    async def _suffix_logprob(self, filled: FilledCanvas) -> float | None:
        """The mean log-probability of the suffix's first tokens; None without any. Raises ServerError, TimeoutError."""
        end = filled.spans[-1][2]
        rows = range(end, min(end + _SUFFIX_TOKENS, len(filled.ids)))
        if not rows:
            return None
        size = len(self._model.vocabulary)
        seed = [self._noise.randrange(size) if row in rows else id_ for row, id_ in enumerate(filled.ids)]
        suffix_ids = [filled.ids[row] for row in rows]
        pinned = [row for row in range(len(seed)) if row not in rows]
        answer = await self._read_canvas(seed, pinned, tokens=sorted(set(suffix_ids)))
        logprobs = answer.log_probabilities
        return sum(
            max(_MIN_LOGPROB, logprobs[row].get(id_, _MIN_LOGPROB)) for row, id_ in zip(rows, suffix_ids, strict=True)
        ) / len(rows)

    async def _read_canvas(
        self, ids: Sequence[int], pinned: Collection[int], *, steps: int = 1, tokens: Sequence[int] = ()
    ) -> CanvasAnswer:
        """The state of a canvas after at most this many steps, and the likelihoods of its rows' tokens then.

        `pinned` are the numbers of the fixed rows. Names the likeliest tokens of each row; with `tokens`, at most
        128, these instead. Raises ServerError, and TimeoutError at the deadline.
        """
        arguments = {
            "diffusion_seed_canvas": ids,
            "diffusion_pinned": sorted(pinned),
            "diffusion_canvas_length": len(ids),
            "diffusion_max_steps": steps,
            "diffusion_read_only": True,
        }
        named = {"logprobs": 1, "logprob_token_ids": tokens} if tokens else {}
        began = time.monotonic()
        body = _request_body(self._model.name, self._plan.prefix_ids, len(ids), arguments, **named)
        reply = await self._client.fetch("/v1/completions", body, self.job.deadline)
        with self._client.blaming_server():
            answer = await asyncio.to_thread(parse_canvas_answer, reply, len(ids))
        self.counters.steps += steps
        if self._is_first:
            self._is_first = False
            self.counters.encode_ms += (time.monotonic() - began) * 1000
            self.counters.prefix_tokens += len(self._plan.prefix_ids)
        return answer


def _score(filled: FilledCanvas, suffix: float) -> float:
    """The score of a fill by its confidence and the suffix's log-probability, with a bonus for length."""
    return (filled.mean_logprob + suffix) / 2 + _LENGTH_WEIGHT * math.log(max(1, filled.num_tokens))


def _plan(planner: CanvasPlanner, group: range, earlier_fills: Sequence[str]) -> CanvasPlan:
    """Plans a canvas, and computes its slow parts: the possible starts of a row involve the whole vocabulary."""
    plan = planner.plan(group, earlier_fills)
    for hole in plan.holes:
        hole.may_begin_with(OPEN_ID)
    return plan


def load_tokenizer_and_settings(
    served_model: ServedModel, canvas_tokens: int, tokenizer: str | None, url: str
) -> ServedDiffusionModel:
    """The tokens and settings of a served model, from the folder or hub id `tokenizer`, or its own; or ModelError."""
    folder = _tokenizer_folder(served_model, tokenizer, url)
    config = checkpoint_files.read_struct(folder / "config.json", dict[str, Any])  # a tokenizer is enough
    width = checkpoint_files.parse_struct(folder / "config.json", config, _Config).canvas_length or 256
    released = InfillConfig(canvas_tokens=width, prompt="chat", line_steps=_LINE_STEPS, quick_steps=_QUICK_STEPS)
    infill_config = checkpoint.read_infill_config(folder) or released
    if infill_config.corruption == HoleNoise.MASK:
        raise ModelError(
            f"{url}: {served_model.id} knows only a mask token, and vLLM fills canvases with random tokens"
        )
    infill_config = _clamp(infill_config, served_model, canvas_tokens, url)
    vocabulary = Vocabulary(checkpoint.Checkpoint(str(folder), folder, config, infill_config).tokenizer(), [])
    vocabulary.build_indexes()
    return ServedDiffusionModel(served_model.id, vocabulary, infill_config)


def _tokenizer_folder(served_model: ServedModel, tokenizer: str | None, url: str) -> Path:
    """The tokenizer's folder. The server's own path counts only if that is on this machine. Raises ModelError."""
    if tokenizer:
        return checkpoint.checkpoint_path(tokenizer)
    try:
        root = served_model.root or ""
        if catalogue.is_hub_id(root):
            return model_store.require_model(root)
        if not (address.parse_server_url(url).is_local and Path(root).is_absolute()):
            raise ModelError(f"{url} does not name a checkpoint of this machine")
        return checkpoint.checkpoint_path(root)
    except ModelError as error:
        raise ModelError(
            f"{error}. {url} serves {served_model.id}; its tokenizer has to be here as well: set server.tokenizer or "
            "--server-tokenizer to a folder with its tokenizer.json (and infill.json, where it has one)"
        ) from error


def _clamp(infill_config: InfillConfig, served_model: ServedModel, canvas_tokens: int, url: str) -> InfillConfig:
    """The config for canvases and prefixes that the server accepts. Raises ModelError if it accepts too little."""
    canvas = min(infill_config.canvas_tokens, canvas_tokens)
    context = served_model.max_model_len or infill_config.max_prefix_tokens + canvas
    if canvas < _MIN_CANVAS or context <= canvas:
        raise ModelError(
            f"{url}: {served_model.id} is served with a canvas of {canvas_tokens} tokens and {context} in all, "
            "which leaves no room; raise canvas_length in --diffusion-config, or --max-model-len"
        )
    return msgspec.structs.replace(
        infill_config,
        canvas_tokens=canvas,
        max_prefix_tokens=min(infill_config.max_prefix_tokens, context - canvas),
        suffix_tokens=min(infill_config.suffix_tokens, canvas),
    )


class VllmBackend(RemoteBackend):
    """A diffusion model served by vLLM."""

    expected = "a vLLM 0.32 or later with a DiffusionGemma checkpoint (see inference/remote/server.md)"
    _probed_model: tuple[ServedModel, int] | None = None

    async def _probe(self) -> None:
        model = await self.listed_model()
        server_model = model, await self._canvas_tokens(model.id)
        if server_model == self._probed_model:
            return
        url = self.client.url
        self._model = await asyncio.to_thread(
            load_tokenizer_and_settings, *server_model, self._arguments.server_tokenizer, url
        )
        self.model = server_backend.clip_name(self._model.name)
        if self._probed_model is not None:
            log.info("another server answers at %s: it serves %s", url, self.model)
        self._probed_model = server_model
        self.context_tokens = prompt.max_snippet_tokens(self._model.vocabulary, self._model.infill_config)

    def replies(self, job: Job) -> AsyncGenerator[JobEvent, None]:
        return VllmRun(self, self._model, job).events()

    async def _canvas_tokens(self, name: str) -> int:
        """The width of the served canvas, from the refusal of an impossible one. Raises ModelError and ServerError."""
        url = self.client.url
        impossible = {"diffusion_seed_canvas": (), "diffusion_pinned": (-1,)}
        try:
            await self.client.fetch("/v1/completions", _request_body(name, (1,), 1, impossible, logprobs=1))
        except ServerError as error:
            if match := _CANVAS.search(str(error)):
                return int(match[1])
            if not _KNOWS_PINS.search(str(error)):
                raise
            raise ModelError(f"{url} does not say how wide its canvas is ({error})") from error
        raise ModelError(f"{url} takes no pinned canvas for {name}, so it is not {self.expected}")

"""The forms of a request to the endpoint and of its answer: llama.cpp's, OpenAI's and Mistral's. Knows no HTTP.

What a form has besides these fields is ignored: the model writes the likeliest text, so a temperature means nothing.
"""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct, field

from inference.ending import CONTROL_TOKEN
from inference.messages import HoleKind, Snippet, Stats
from inference.models.fim_tokens import TABLE
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.pipeline import FillBudget
from lsp_server.holes import Span, hole_at_cursor
from lsp_server.settings.privacy import is_secret
from lsp_server.settings.schema import Settings
from lsp_server.syntax.languages import language_of
from lsp_server.syntax.lines import is_alone

MOST_TOKENS = 1_024
"""The longest text, whatever a request asks for."""
_SPACE = "▁"
_FIM_TOKEN = re.compile(r"<\|?\w+[_-](prefix|suffix|middle)\|?>")
"""A token of a family that is not in the table."""
_Stop = Annotated[str, Meta(max_length=256)]
_NO_STATS = Stats()
_HELD_LINES = 2
"""How many lines that are not blank a text may lose besides its last: they repeat what follows."""


@dataclass(frozen=True)
class FimInput:
    """Where a text is wanted: what stands before and after it, the file's path if known, and texts of other files."""

    before: str
    after: str
    path: str = ""
    context: tuple[Snippet, ...] = ()


@dataclass(frozen=True)
class Completion:
    """The whole text. `is_cut`: it would have gone on, but for its limit or the deadline. `ms` is all that it took."""

    text: str
    ms: float
    is_cut: bool = False
    tokens: int = 0
    stats: Stats = _NO_STATS


class _Form(Struct, frozen=True):
    """What all forms have. `stop`: the text ends in front of any of these."""

    stop: _Stop | Annotated[tuple[_Stop, ...], Meta(max_length=64)] | None = None
    stream: bool = False
    last_line: ClassVar[str] = ""
    """Ends a stream."""
    event: ClassVar[str] = "data: {}\n\n"
    """An event of a stream, around its JSON."""
    texts: ClassVar[tuple[str, ...]] = ("prompt",)
    """The fields of which a request has at least one."""

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end it."""
        given = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        return tuple(each for each in given if each)


class _Extra(Struct, frozen=True):
    text: str
    filename: str = ""


class LlamaInfillRequest(_Form, frozen=True):
    """`/infill` of llama.cpp: `prompt` is what stands before the cursor on its line; and its `/completion`, without the
    other texts: `prompt` is one in a family's own tokens.
    """

    texts: ClassVar[tuple[str, ...]] = ("input_prefix", "input_suffix", "prompt")

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Annotated[tuple[_Extra, ...], Meta(max_length=256)] = ()
    prompt: str = ""
    wanted_tokens: int | None = field(name="n_predict", default=None)
    """How long the text may be; None, or less than 0: as long as in an editor."""
    response_fields: tuple[str, ...] = ()

    def place(self) -> FimInput:
        """Where the text goes."""
        found = taken_apart(self.input_prefix + self.prompt) if not self.input_suffix else None
        extra = tuple(Snippet(each.filename, each.text) for each in reversed(self.input_extra))  # the newest comes last
        return found or FimInput(self.input_prefix + self.prompt, self.input_suffix, context=extra)

    def part(self, text: str, model: str) -> dict[str, Any]:
        """An event of a stream, with more of the text."""
        return {"content": text, "stop": False, "model": model}

    def end(self, written: Completion, model: str) -> dict[str, Any]:
        """The last event of a stream."""
        return {**self._all(written, model), "content": ""}

    def whole(self, written: Completion, model: str) -> dict[str, Any]:
        """The answer without a stream."""
        answer = self._all(written, model)
        if not self.response_fields:
            return answer
        flat = answer | {f"timings/{name}": value for name, value in answer["timings"].items()}
        return {name: flat[name] for name in self.response_fields if name in flat}

    def _all(self, written: Completion, model: str) -> dict[str, Any]:
        stats, tokens = written.stats, written.tokens
        read, writing_ms = stats.prefix_tokens - stats.reused_tokens, max(written.ms - stats.encode_ms, 0.001)
        return {
            "content": written.text,
            "stop": True,
            "stop_type": "limit" if written.is_cut else "eos",
            "model": model,
            "tokens_predicted": tokens,
            "tokens_evaluated": stats.prefix_tokens,
            "tokens_cached": stats.reused_tokens,
            "truncated": False,
            "timings": _timings("prompt", read, stats.encode_ms) | _timings("predicted", tokens, writing_ms),
        }


class OpenAiCompletionRequest(_Form, frozen=True):
    """`/v1/completions` of OpenAI, with `suffix`, or with a prompt that holds a family's own tokens."""

    prompt: str | Annotated[tuple[str, ...], Meta(min_length=1, max_length=1)] = ""
    suffix: str | None = None
    wanted_tokens: int | None = field(name="max_tokens", default=None)
    last_line: ClassVar[str] = "data: [DONE]\n\n"

    def place(self) -> FimInput:
        prompt = self.prompt if isinstance(self.prompt, str) else self.prompt[0]
        return (None if self.suffix else taken_apart(prompt)) or FimInput(prompt, self.suffix or "")

    def part(self, text: str, model: str) -> dict[str, Any]:
        return self._answer({"text": text, "logprobs": None}, model)

    def end(self, written: Completion, model: str) -> dict[str, Any]:
        return self._ended(self.part("", model), written)

    def whole(self, written: Completion, model: str) -> dict[str, Any]:
        return self._ended(self.part(written.text, model), written)

    def _answer(self, choice: dict[str, Any], model: str, kind: str = "text_completion") -> dict[str, Any]:
        answer = {"id": f"cmpl-{id(self):x}", "object": kind, "created": int(time.time()), "model": model}
        return {**answer, "choices": [{"index": 0, "finish_reason": None, **choice}]}

    def _ended(self, answer: dict[str, Any], written: Completion) -> dict[str, Any]:
        answer["choices"][0]["finish_reason"] = "length" if written.is_cut else "stop"
        read = written.stats.prefix_tokens
        usage = {"prompt_tokens": read, "completion_tokens": written.tokens, "total_tokens": read + written.tokens}
        return {**answer, "usage": usage}


class MistralFimRequest(OpenAiCompletionRequest, frozen=True):
    """`/v1/fim/completions` of Mistral: the same request, answered as a message."""

    def part(self, text: str, model: str) -> dict[str, Any]:
        return self._answer({"delta": {"role": "assistant", "content": text}}, model, "chat.completion.chunk")

    def whole(self, written: Completion, model: str) -> dict[str, Any]:
        message = {"message": {"role": "assistant", "content": written.text}}
        return self._ended(self._answer(message, model, "chat.completion"), written)


class _OllamaOptions(Struct, frozen=True):
    wanted_tokens: int | None = field(name="num_predict", default=None)
    stop: _Stop | Annotated[tuple[_Stop, ...], Meta(max_length=64)] | None = None


class OllamaGenerateRequest(Struct, frozen=True):
    """`/api/generate` of Ollama, with `suffix`, or with a prompt that holds a family's own tokens."""

    prompt: str
    suffix: str = ""
    stream: bool = True
    options: _OllamaOptions = _OllamaOptions()
    last_line: ClassVar[str] = ""
    event: ClassVar[str] = "{}\n"
    texts: ClassVar[tuple[str, ...]] = ("prompt",)

    @property
    def wanted_tokens(self) -> int | None:
        return self.options.wanted_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        return _Form(self.options.stop).stops

    def place(self) -> FimInput:
        return (None if self.suffix else taken_apart(self.prompt)) or FimInput(self.prompt, self.suffix)

    def part(self, text: str, model: str) -> dict[str, Any]:
        return {"model": model, "created_at": datetime.now(UTC).isoformat(), "response": text, "done": False}

    def end(self, written: Completion, model: str) -> dict[str, Any]:
        return {**self.whole(written, model), "response": ""}

    def whole(self, written: Completion, model: str) -> dict[str, Any]:
        read_ms, stats = written.stats.encode_ms, written.stats
        counts = {"prompt_eval_count": stats.prefix_tokens, "eval_count": written.tokens}
        ms = {"total": written.ms, "load": 0, "prompt_eval": read_ms, "eval": max(written.ms - read_ms, 0)}
        durations = {f"{name}_duration": int(1e6 * duration_ms) for name, duration_ms in ms.items()}
        done = {"done": True, "done_reason": "length" if written.is_cut else "stop"}
        return {**self.part(written.text, model), **done, **durations, **counts}


Form = LlamaInfillRequest | OpenAiCompletionRequest | OllamaGenerateRequest
_Kind = TypeVar("_Kind", bound=Form)


def form_in(body: bytes, kind: type[_Kind]) -> _Kind:
    """The request that a body holds. Plugins write null for what they leave out, whole numbers as floats, and half a
    character where they cut a text. Raises ValueError, RecursionError.
    """
    fields = _plain(json.loads(body))
    form = msgspec.convert(fields, kind)
    if fields.keys().isdisjoint(kind.texts):
        raise ValueError(f"it has none of the fields {', '.join(kind.texts)}")
    return form


def _plain(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="ignore").decode()
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {_plain(name): _plain(item) for name, item in value.items() if item is not None}
    return value


def _timings(name: str, tokens: int, ms: float) -> dict[str, float]:
    return {
        f"{name}_n": tokens,
        f"{name}_ms": ms,
        f"{name}_per_token_ms": ms / max(tokens, 1),
        f"{name}_per_second": tokens * 1000 / ms if ms else 0.0,
    }


def taken_apart(prompt: str) -> FimInput | None:
    """The place that a prompt in a family's own tokens describes, whichever model runs; None if it holds none."""
    for tokens in TABLE.values():
        first, second = tokens.prefix, tokens.suffix
        if tokens.is_suffix_first:
            first, second = second, first
        head, begins, rest = prompt.partition(first.removeprefix(_SPACE))
        one, turns, other = _parted(rest, second)
        other, ends, given = _parted(other, tokens.middle, last=True) if tokens.middle else (other, "no token", "")
        if not (begins and turns and ends):
            continue
        before, after = (other, one) if tokens.is_suffix_first else (one, other)
        before = before.removeprefix(tokens.space)
        files = head.split(tokens.file)[1:] if tokens.file else []
        snippets = [Snippet(name, text) for name, _, text in (file.partition("\n") for file in files)]
        path = snippets.pop().path if snippets else ""
        if snippets and tokens.names_file_inside:
            path, _, before = before.partition("\n")
        return FimInput(before + _begun(given), after, path, tuple(snippets))
    matches = list(_FIM_TOKEN.finditer(prompt))
    if sorted(match[1] for match in matches) != ["middle", "prefix", "suffix"]:
        return None
    stops = [*(match.start() for match in matches[1:]), len(prompt)]
    parts = {match[1]: prompt[match.end() : end] for match, end in zip(matches, stops, strict=True)}
    return FimInput(parts["prefix"] + _begun(parts["middle"]), parts["suffix"])


def _begun(answer: str) -> str:
    """The begun answer of a prompt, without what a chat template puts around the prompt."""
    return CONTROL_TOKEN.split(answer, maxsplit=1)[0]


def _parted(text: str, token: str, *, last: bool = False) -> tuple[str, str, str]:
    """The text around a token. A space in front of it, which some vocabularies count to it, may be written as such."""
    name = token.removeprefix(_SPACE)
    left, found, right = text.rpartition(name) if last else text.partition(name)
    return (left[:-1] if name != token and left.endswith((" ", _SPACE)) else left), found, right


def place_of(form: Form, settings: Settings) -> FimInput:
    """Where the form wants a text, without secret files. Raises ValueError if it wants one in such a file, or if its
    prompt cannot be read.
    """
    place = form.place()
    if CONTROL_TOKEN.match(place.before):
        raise ValueError("the prompt is in tokens of an unknown form; send the text before the cursor and the suffix")
    if is_secret(place.path, settings):
        raise ValueError("files like this one may hold secrets and are never sent to a model")
    return replace(place, context=tuple(each for each in place.context if not is_secret(each.path, settings)))


def document_of(place: FimInput) -> Document:
    """The text as an editor would have it open; of no language, and thus without a tree, if the file has no name."""
    uri = f"file:///{quote(place.path.lstrip('/'))}" if place.path else ""
    return Document(uri, language_of(place.path), 0, place.before + place.after)


def hole_of(form: Form, place: FimInput, snapshot: Snapshot) -> Span:
    """The hole in the document: as many lines as the form allows, or one where code follows on the line. Plugins leave
    out the indentation of a blank line.
    """
    start = len(place.before)
    single_line = bool(place.after.partition("\n")[0].strip()) or not {"\n", "\r\n"}.isdisjoint(form.stops)
    at_cursor = hole_at_cursor(snapshot, start) if is_alone(snapshot.text, start, start) else None
    indent = at_cursor.starts_with if at_cursor else ""
    return Span(start, start, HoleKind.LINE if single_line else HoleKind.BLOCK, indent, single_line=single_line)


def budget_of(form: Form, settings: Settings, client: str) -> FillBudget:
    """What ghost text may cost that `client` asks for, and the form's limit of tokens."""
    most = form.wanted_tokens
    max_tokens = min(most, MOST_TOKENS) if most and most > 0 else 0
    return replace(FillBudget.of(settings, invoked=False), max_tokens=max_tokens, endpoint_client=client)


class TextSoFar:
    """A text that is still being written: what of it is `sent`, and whether it met one of its ends.

    It is sent line by line, as far as it cannot change any more: a model that writes from left to right may still drop
    its last lines. One that refines a whole text sends it at its end.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """The text ends before any of the `stops`."""
        self._stops = re.compile("|".join(map(re.escape, stops)) or "(?!)")
        self.sent = ""
        self.is_stopped = False

    def more(self, text: str, *, is_whole: bool) -> str:
        """What `text`, a draft or the whole text, adds that is final."""
        stop = self._stops.search(text)
        self.is_stopped = stop is not None
        final = text[: stop.start()] if stop else text if is_whole else _without_last_lines(text)
        more = final[len(self.sent) :] if final.startswith(self.sent) else ""
        self.sent += more
        return more


def _without_last_lines(text: str) -> str:
    """A draft without the lines that the whole text may lack."""
    lines = text.split("\n")[:-1]
    for _ in range(_HELD_LINES):
        while lines and not lines.pop().strip():
            pass
    return "".join(f"{line}\n" for line in lines)

"""The schemas of the endpoint's requests and responses: llama.cpp's, OpenAI's, Mistral's, Ollama's. Knows no HTTP.

Other fields of a request are ignored: the model writes the likeliest text, so a temperature means nothing.
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
from inference.messages import HoleKind, NextEditRequest, Snippet, Stats
from inference.models.edit_prompts import EditPrompt, parse_edit_prompt
from inference.models.fim_tokens import TABLE
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.pipeline import FillBudget
from lsp_server.holes import HoleSpan, hole_at_cursor
from lsp_server.settings.privacy import is_secret
from lsp_server.settings.schema import Settings
from lsp_server.syntax.languages import language_id_of_path
from lsp_server.syntax.lines import is_alone

MAX_TOKENS = 1_024
"""The token limit of a text, whatever a request asks for."""
_SPACE = "▁"
_FIM_TOKEN = re.compile(r"<\|?\w+[_-](prefix|suffix|middle)\|?>")
"""A token of a family that is not in the table."""
_Stop = Annotated[str, Meta(max_length=256)]
_NO_STATS = Stats()
_HELD_LINES = 2
"""How many non-blank lines a text may lose besides its last one: those that repeat what follows."""


@dataclass(frozen=True)
class FimInput:
    """The text before and after the hole, the file's path if known, and texts of other files."""

    prefix: str
    suffix: str
    path: str = ""
    context: tuple[Snippet, ...] = ()


@dataclass(frozen=True)
class CompletionResult:
    """The whole text. `is_cut`: its limit or the deadline ended it. `ms` is the total time."""

    text: str
    ms: float
    is_cut: bool = False
    tokens: int = 0
    stats: Stats = _NO_STATS


class _BaseRequest(Struct, frozen=True):
    """The common fields of all requests. `stop`: the text ends before any of these."""

    stop: _Stop | Annotated[tuple[_Stop, ...], Meta(max_length=64)] | None = None
    stream: bool = False
    last_line: ClassVar[str] = ""
    """The last line of a stream."""
    event_format: ClassVar[str] = "data: {}\n\n"
    """An event of a stream, around its JSON."""
    text_fields: ClassVar[tuple[str, ...]] = ("prompt",)
    """A request has at least one of these fields."""

    @property
    def stops(self) -> tuple[str, ...]:
        stops = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        return tuple(text for text in stops if text)


class _Extra(Struct, frozen=True):
    text: str
    filename: str = ""


class LlamaInfillRequest(_BaseRequest, frozen=True):
    """llama.cpp's `/infill`, whose `prompt` is the text before the cursor on its line, and its `/completion`, whose
    only text, the `prompt`, has a family's own tokens.
    """

    text_fields: ClassVar[tuple[str, ...]] = ("input_prefix", "input_suffix", "prompt")

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Annotated[tuple[_Extra, ...], Meta(max_length=256)] = ()
    prompt: str = ""
    wanted_tokens: int | None = field(name="n_predict", default=None)
    """How long the text may be; None, or less than 0: as long as in an editor."""
    response_fields: tuple[str, ...] = ()

    def fim_input(self) -> FimInput:
        """The text around the hole, and other files."""
        parsed = parse_fim_prompt(self.input_prefix + self.prompt) if not self.input_suffix else None
        extra = tuple(Snippet(file.filename, file.text) for file in reversed(self.input_extra))  # the newest comes last
        return parsed or FimInput(self.input_prefix + self.prompt, self.input_suffix, context=extra)

    def stream_event(self, text: str, model: str) -> dict[str, Any]:
        return {"content": text, "stop": False, "model": model}

    def last_event(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        return {**self._fields(completion, model), "content": ""}

    def response(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        fields = self._fields(completion, model)
        if not self.response_fields:
            return fields
        flat = fields | {f"timings/{name}": value for name, value in fields["timings"].items()}
        return {name: flat[name] for name in self.response_fields if name in flat}

    def _fields(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        stats, tokens = completion.stats, completion.tokens
        prefilled, decode_ms = stats.prefix_tokens - stats.reused_tokens, max(completion.ms - stats.encode_ms, 0.001)
        return {
            "content": completion.text,
            "stop": True,
            "stop_type": "limit" if completion.is_cut else "eos",
            "model": model,
            "tokens_predicted": tokens,
            "tokens_evaluated": stats.prefix_tokens,
            "tokens_cached": stats.reused_tokens,
            "truncated": False,
            "timings": _timings("prompt", prefilled, stats.encode_ms) | _timings("predicted", tokens, decode_ms),
        }


class OpenAiCompletionRequest(_BaseRequest, frozen=True):
    """`/v1/completions` of OpenAI, with `suffix`, or with a prompt that holds a family's own tokens."""

    prompt: str | Annotated[tuple[str, ...], Meta(min_length=1, max_length=1)] = ""
    suffix: str | None = None
    wanted_tokens: int | None = field(name="max_tokens", default=None)
    last_line: ClassVar[str] = "data: [DONE]\n\n"

    def fim_input(self) -> FimInput:
        prompt = self.prompt if isinstance(self.prompt, str) else self.prompt[0]
        return (None if self.suffix else parse_fim_prompt(prompt)) or FimInput(prompt, self.suffix or "")

    def stream_event(self, text: str, model: str) -> dict[str, Any]:
        return self._response({"text": text, "logprobs": None}, model)

    def last_event(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        return self._with_usage(self.stream_event("", model), completion)

    def response(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        return self._with_usage(self.stream_event(completion.text, model), completion)

    def _response(self, choice: dict[str, Any], model: str, kind: str = "text_completion") -> dict[str, Any]:
        response = {"id": f"cmpl-{id(self):x}", "object": kind, "created": int(time.time()), "model": model}
        return {**response, "choices": [{"index": 0, "finish_reason": None, **choice}]}

    def _with_usage(self, response: dict[str, Any], completion: CompletionResult) -> dict[str, Any]:
        response["choices"][0]["finish_reason"] = "length" if completion.is_cut else "stop"
        prompt, tokens = completion.stats.prefix_tokens, completion.tokens
        usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
        return {**response, "usage": usage}


class MistralFimRequest(OpenAiCompletionRequest, frozen=True):
    """`/v1/fim/completions` of Mistral: the same request, answered as a message."""

    def stream_event(self, text: str, model: str) -> dict[str, Any]:
        return self._response({"delta": {"role": "assistant", "content": text}}, model, "chat.completion.chunk")

    def response(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        message = {"message": {"role": "assistant", "content": completion.text}}
        return self._with_usage(self._response(message, model, "chat.completion"), completion)


class _OllamaOptions(_BaseRequest, frozen=True):
    wanted_tokens: int | None = field(name="num_predict", default=None)


class OllamaGenerateRequest(_BaseRequest, frozen=True):
    """`/api/generate` of Ollama, with `suffix`, or with a prompt that holds a family's own tokens."""

    prompt: str = ""
    suffix: str = ""
    stream: bool = True
    options: _OllamaOptions = _OllamaOptions()
    event_format: ClassVar[str] = "{}\n"

    @property
    def wanted_tokens(self) -> int | None:
        return self.options.wanted_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        return self.options.stops

    def fim_input(self) -> FimInput:
        return (None if self.suffix else parse_fim_prompt(self.prompt)) or FimInput(self.prompt, self.suffix)

    def stream_event(self, text: str, model: str) -> dict[str, Any]:
        return {"model": model, "created_at": datetime.now(UTC).isoformat(), "response": text, "done": False}

    def last_event(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        return {**self.response(completion, model), "response": ""}

    def response(self, completion: CompletionResult, model: str) -> dict[str, Any]:
        read_ms, stats = completion.stats.encode_ms, completion.stats
        counts = {"prompt_eval_count": stats.prefix_tokens, "eval_count": completion.tokens}
        ms = {"total": completion.ms, "load": 0, "prompt_eval": read_ms, "eval": max(completion.ms - read_ms, 0)}
        durations = {f"{name}_duration": int(1e6 * duration_ms) for name, duration_ms in ms.items()}
        done = {"done": True, "done_reason": "length" if completion.is_cut else "stop"}
        return {**self.stream_event(completion.text, model), **done, **durations, **counts}


CompletionRequest = LlamaInfillRequest | OpenAiCompletionRequest | OllamaGenerateRequest
_Kind = TypeVar("_Kind", bound=CompletionRequest)


def decode_request(body: bytes, kind: type[_Kind]) -> _Kind:
    """The request that a body holds. Plugins write null for what they leave out, whole numbers as floats, and half a
    character where they cut a text. Raises ValueError, RecursionError.
    """
    fields = _plain(json.loads(body))
    request = msgspec.convert(fields, kind)
    if fields.keys().isdisjoint(kind.text_fields):
        raise ValueError(f"it has none of the fields {', '.join(kind.text_fields)}")
    return request


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


def parse_fim_prompt(prompt: str) -> FimInput | None:
    """The input of a prompt in a family's own tokens, whichever model runs; None if it has no such tokens."""
    for tokens in TABLE.values():
        first, second = tokens.prefix, tokens.suffix
        if tokens.is_suffix_first:
            first, second = second, first
        head, has_first, tail = prompt.partition(first.removeprefix(_SPACE))
        prefix, has_second, suffix = _split_at_token(tail, second)
        has_middle, forced = "no token", ""
        if tokens.middle:
            suffix, has_middle, forced = _split_at_token(suffix, tokens.middle, last=True)
        if not (has_first and has_second and has_middle):
            continue
        prefix, suffix = (suffix, prefix) if tokens.is_suffix_first else (prefix, suffix)
        prefix = prefix.removeprefix(tokens.space)
        files = head.split(tokens.file)[1:] if tokens.file else []
        snippets = [Snippet(name, text) for name, _, text in (file.partition("\n") for file in files)]
        path = snippets.pop().path if snippets else ""
        if snippets and tokens.names_file_inside:
            path, _, prefix = prefix.partition("\n")
        return FimInput(prefix + _begun_answer(forced), suffix, path, tuple(snippets))
    matches = list(_FIM_TOKEN.finditer(prompt))
    if sorted(match[1] for match in matches) != ["middle", "prefix", "suffix"]:
        return None
    stops = [*(match.start() for match in matches[1:]), len(prompt)]
    parts = {match[1]: prompt[match.end() : end] for match, end in zip(matches, stops, strict=True)}
    return FimInput(parts["prefix"] + _begun_answer(parts["middle"]), parts["suffix"])


def _begun_answer(answer: str) -> str:
    """The begun answer of a prompt, without what a chat template puts around the prompt."""
    return CONTROL_TOKEN.split(answer, maxsplit=1)[0]


def _split_at_token(text: str, token: str, *, last: bool = False) -> tuple[str, str, str]:
    """The text around a token. The space that some vocabularies make part of the token may precede it as text."""
    name = token.removeprefix(_SPACE)
    head, separator, tail = text.rpartition(name) if last else text.partition(name)
    return (head[:-1] if name != token and head.endswith((" ", _SPACE)) else head), separator, tail


def screened_fim_input(request: CompletionRequest, settings: Settings) -> FimInput:
    """The request's input without secret files. Raises ValueError if its own is one or its prompt's form is unknown."""
    fim_input = request.fim_input()
    if CONTROL_TOKEN.match(fim_input.prefix):
        raise ValueError("the prompt is in tokens of an unknown form; send the text before the cursor and the suffix")
    _refuse_secret(fim_input.path, settings)
    context = tuple(snippet for snippet in fim_input.context if not is_secret(snippet.path, settings))
    return replace(fim_input, context=context)


def screened_edit_prompt(request: CompletionRequest, settings: Settings) -> tuple[EditPrompt, NextEditRequest] | None:
    """The request's prompt if it is an edit model's, and what it shows, without changes of secret files. Raises
    ValueError if its own file is one, or if the prompt is malformed.
    """
    parsed = parse_edit_prompt(request.prompt if isinstance(request.prompt, str) else request.prompt[0])
    if parsed is None:
        return None
    prompt, edit_request = parsed
    _refuse_secret(edit_request.path, settings)
    if end := next((end for end in (*prompt.stop_strings, *request.stops) if end in prompt.current), ""):
        raise ValueError(f"the region contains {end!r}, which would end an answer; nothing can be said about this text")
    hunks = tuple(hunk for hunk in edit_request.hunks if not is_secret(hunk.path, settings))
    return prompt, msgspec.structs.replace(edit_request, hunks=hunks)


def _refuse_secret(path: str, settings: Settings) -> None:
    if is_secret(path, settings):
        raise ValueError("files like this one may hold secrets and are never sent to a model")


def build_document(fim_input: FimInput) -> Document:
    """The text as an editor would have it open; of no language, and thus without a tree, if the file has no name."""
    uri = f"file:///{quote(fim_input.path.lstrip('/'))}" if fim_input.path else ""
    return Document(uri, language_id_of_path(fim_input.path), 0, fim_input.prefix + fim_input.suffix)


def find_hole(request: CompletionRequest, fim_input: FimInput, snapshot: Snapshot) -> HoleSpan:
    """The hole in the document: the lines that the request allows, or one where code follows on the line. Plugins leave
    out the indentation of a blank line.
    """
    start = len(fim_input.prefix)
    single_line = bool(fim_input.suffix.partition("\n")[0].strip()) or not {"\n", "\r\n"}.isdisjoint(request.stops)
    at_cursor = hole_at_cursor(snapshot, start) if is_alone(snapshot.text, start, start) else None
    indent = at_cursor.starts_with if at_cursor else ""
    return HoleSpan(start, start, HoleKind.LINE if single_line else HoleKind.BLOCK, indent, single_line=single_line)


def fill_budget(request: CompletionRequest, settings: Settings, client: str) -> FillBudget:
    """The budget of ghost text for a `client`, with the request's token limit."""
    requested = request.wanted_tokens
    max_tokens = min(requested, MAX_TOKENS) if requested and requested > 0 else 0
    budget = FillBudget.from_settings(settings, invoked=False)
    return replace(budget, max_tokens=max_tokens, endpoint_client=client, min_prob=0.0)


class FinalTextTracker:
    """A text that is still being generated: how much of it is `sent`, and whether it has met a stop string.

    It is sent line by line as soon as a line is final: a model that decodes from left to right may still drop its last
    lines, and one that refines a whole text sends it only at the end.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """The text ends before any of the `stops`."""
        self._stops = re.compile("|".join(map(re.escape, stops)) or "(?!)")
        self.sent = ""
        self.is_stopped = False

    def take_final(self, text: str, *, is_whole: bool) -> str:
        """The final part of `text`, a draft or the whole text, that was not sent yet."""
        stop = self._stops.search(text)
        self.is_stopped = stop is not None
        final = text[: stop.start()] if stop else text if is_whole else _without_last_lines(text)
        added = final[len(self.sent) :] if final.startswith(self.sent) else ""
        self.sent += added
        return added


def _without_last_lines(text: str) -> str:
    """A draft without the lines that the whole text may lack."""
    lines = text.split("\n")[:-1]
    for _ in range(_HELD_LINES):
        while lines and not lines.pop().strip():
            pass
    return "".join(f"{line}\n" for line in lines)

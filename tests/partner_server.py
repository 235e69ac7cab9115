"""A real HTTP server for tests that stands in for an autoregressive one: all its APIs, with scripted answers.

It answers `/v1/completions` (with a `suffix`, or with the fill-in-the-middle tokens of a family), llama.cpp's `/infill`
and `/v1/chat/completions`, whole or as a stream. Real servers are asked in `tests/served`.
"""

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.http_server import HttpRequest, HttpServer, chunk, listening, response

KINDS = ("fim", "suffix", "infill", "chat")
"""What a server can be asked, with `PartnerServer.kinds`; `/v1/models` it always has."""
_FAMILIES = (  # prefix, suffix, middle
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("▁<PRE> ", "▁<SUF>", "▁<MID>"),
    ("[PREFIX]", "[SUFFIX]", ""),
)
_SURE = 0.9
"""How likely it says that each token is."""


@dataclass(frozen=True)
class Asked:
    """One request to fill a hole. `kind` is one of KINDS.

    `prefix` and `suffix` are what it was shown around the hole, `draft` what the hole held (chat alone).
    """

    kind: str
    prefix: str
    suffix: str
    draft: str
    body: dict[str, Any]
    headers: dict[str, str]


def sensible(asked: Asked) -> str:
    """What a model could write there: a value behind `return` or `=`, else a call."""
    line = asked.prefix.rpartition("\n")[2]
    if asked.draft:
        return f"improved({asked.draft.strip()})" if "\n" not in asked.draft.strip() else asked.draft
    if not line.strip() and asked.prefix.rstrip().endswith(":"):
        return "return sum(numbers) / len(numbers)" if line else "    return sum(numbers) / len(numbers)"
    return "sum(numbers) / len(numbers)" if re.search(r"(return|=|\() *$", line) else "partner()"


@dataclass
class PartnerServer(HttpServer):
    """Answers with what `answer` says, a token at a time where it is asked for a stream.

    `kinds` are the APIs that it has; others are answered 404. `delay_s` goes by before the first token, `pause_s`
    before each other one. `status` other than 200 refuses what would be filled. `fenced` puts what a conversation is
    answered into a code fence. `raw` gives the bytes of a stream that is no honest answer (None: no more comes, nor an
    end), `models` another answer to `/v1/models`. Requests with a field of `refuses`, or longer than `most_characters`,
    are refused.
    """

    answer: Callable[[Asked], str] = sensible
    kinds: tuple[str, ...] = KINDS
    name: str = "qwen2.5-coder-1.5b"
    delay_s: float = 0.0
    pause_s: float = 0.0
    status: int = 200
    fenced: bool = True
    raw: Callable[[Asked], Iterable[bytes | None] | None] = lambda _: None
    models: object = None
    is_ollama: bool = False
    max_model_len: int | None = None
    refuses: tuple[str, ...] = ()
    most_characters: int = 1 << 30
    asked: list[Asked] = field(default_factory=list)

    @property
    def fills(self) -> list[Asked]:
        """The requests to fill a hole, without those that only found out what the server can do."""
        return [asked for asked in self.asked if _tokens(asked.body) > 1]

    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path, headers, body = request.path, request.headers, request.json
        if path == "/v1/models":
            await self.unless_gone(reader, self.hold.wait())
            known = {"max_model_len": self.max_model_len} if self.max_model_len else {}
            listed = {"object": "list", "data": [{"id": self.name, "object": "model", **known}]}
            writer.write(response(200, listed if self.models is None else self.models))
        elif path == "/api/version" and self.is_ollama:
            writer.write(response(200, {"version": "0.9.0"}))
        elif path == "/props" and "infill" in self.kinds:
            writer.write(
                response(200, {"default_generation_settings": {"n_ctx": 8192}, "model_path": f"{self.name}.gguf"})
            )
        elif (asked := _read(path, body, headers)) is None or asked.kind not in self.kinds:
            writer.write(response(404, {"error": {"message": f"there is no {path} for that"}}))
        elif refused := [name for name in self.refuses if name in body]:
            writer.write(response(400, {"error": {"message": f"{refused[0]} is not currently supported"}}))
        elif len(str(body)) > self.most_characters:
            self.asked.append(asked)
            writer.write(response(400, {"error": {"message": "This model's maximum context length is smaller"}}))
        else:
            self.asked.append(asked)
            await self.unless_gone(reader, self._answer(asked, writer))

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await self.hold.wait()
        await asyncio.sleep(self.delay_s)
        if _tokens(asked.body) > 1 and (parts := self.raw(asked)) is not None:
            await _send_raw(writer, parts)
            return
        if self.status != 200:
            writer.write(response(self.status, {"error": {"message": "no"}}))
            return
        text = self.answer(asked)
        if asked.kind == "chat" and self.fenced:
            text = f"```\n{text}\n```"
        pieces, reason = _cut(text, asked.body)
        if not asked.body.get("stream"):
            writer.write(response(200, _message(asked.kind, pieces, reason, self.name, is_part=False)))
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            _event(writer, _message(asked.kind, [piece], None, self.name, is_part=True))
            await writer.drain()
            await asyncio.sleep(self.pause_s)
        _event(writer, _message(asked.kind, [], reason, self.name, is_part=True))
        if asked.kind != "infill":
            _event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")


def _read(path: str, body: dict[str, Any], headers: dict[str, str]) -> Asked | None:
    """What is asked; None where no API has such a path."""
    match path:
        case "/infill":
            before = body["input_prefix"] + body.get("prompt", "")
            return Asked("infill", before, body["input_suffix"], "", body, headers)
        case "/v1/chat/completions":
            before, after, draft = _shown(body["messages"][-1]["content"])
            return Asked("chat", before, after, draft, body, headers)
        case "/v1/completions" if "suffix" in body:
            return Asked("suffix", body["prompt"], body["suffix"], "", body, headers)
        case "/v1/completions":
            return Asked("fim", *_around(body["prompt"]), "", body, headers)
    return None


def _around(prompt: str) -> tuple[str, str]:
    """Prefix and suffix of a prompt with fill-in-the-middle tokens; all of it and nothing where it has none."""
    for before, after, middle in _FAMILIES:
        if before not in prompt or middle not in prompt:
            continue
        asked, _, written = prompt.partition(middle) if middle else (prompt, "", "")
        if asked.index(after) < asked.index(before):
            suffix, _, prefix = asked.partition(after)[2].partition(before)
        else:
            prefix, _, suffix = asked.partition(before)[2].partition(after)
        return prefix + written, suffix
    return prompt, ""


def _shown(words: str) -> tuple[str, str, str]:
    """Prefix, suffix and draft of a conversation's last message, as inference/engine/fim/chat.py has it."""
    file = re.search(r"<file[^>]*>\n(.*?)<hole/>(.*)\n</file>", words, re.DOTALL)
    draft = re.search(r"<draft>\n(.*?)\n</draft>", words, re.DOTALL)
    return (*(file.groups() if file else ("", "")), draft[1] if draft else "")


def _tokens(body: dict[str, Any]) -> int:
    return int(body.get("max_tokens") or body.get("n_predict") or 1 << 20)


def _cut(text: str, body: dict[str, Any]) -> tuple[list[str], str]:
    """The tokens of an answer up to a stop string or the most that were asked for, and why it ends."""
    stops = [at for stop in body.get("stop") or () if (at := text.find(stop)) >= 0]
    pieces = re.findall(r"\w+|\s+|.", text[: min(stops, default=len(text))])
    most = _tokens(body)
    return pieces[:most], "length" if len(pieces) > most else "stop"


def _message(kind: str, pieces: list[str], reason: str | None, name: str, *, is_part: bool) -> dict[str, Any]:
    """A whole answer, or a part of one, as the API has it."""
    sure = math.log(_SURE)
    text = "".join(pieces)
    if kind == "infill":
        end = {"stop": reason is not None, "stop_type": "limit" if reason == "length" else "eos"}
        known = [{"id": 1, "token": piece, "logprob": sure, "top_logprobs": []} for piece in pieces]
        end = end if reason else {"stop": False}
        return {"content": text, "tokens": [], **end, "completion_probabilities": known}
    if kind == "chat":
        inner = {"role": "assistant", "content": text}
        known = {"content": [{"token": piece, "logprob": sure, "top_logprobs": []} for piece in pieces]}
        choice = {"index": 0, "delta" if is_part else "message": inner, "logprobs": known, "finish_reason": reason}
        return {"object": "chat.completion", "model": name, "choices": [choice]}
    known = {"tokens": pieces, "token_logprobs": [sure] * len(pieces)}
    choice = {"index": 0, "text": text, "logprobs": known, "finish_reason": reason}
    return {"object": "text_completion", "model": name, "choices": [choice]}


async def _send_raw(writer: asyncio.StreamWriter, parts: Iterable[bytes | None]) -> None:
    """A stream of whatever bytes."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in parts:
        if part is None:
            await asyncio.Event().wait()
            return
        writer.write(chunk(part))
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(b"0\r\n\r\n")


def _event(writer: asyncio.StreamWriter, value: object) -> None:
    data = b"data: " + (value.encode() if isinstance(value, str) else json.dumps(value).encode()) + b"\n\n"
    writer.write(chunk(data))


def partner_server(port: int = 0, **settings: Any) -> AbstractAsyncContextManager[PartnerServer]:
    return listening(PartnerServer(**settings), port)

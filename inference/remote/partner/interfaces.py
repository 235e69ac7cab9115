"""A server's interfaces for filling a hole: the request for each, and the fill in its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inference.engine.middle import conversation
from inference.engine.middle.conversation import Block
from inference.engine.middle.question import CHARACTERS_PER_TOKEN, CONTEXT_TOKENS, Question
from inference.models.fim_tokens import FimTokens
from inference.remote.partner import wire
from inference.remote.partner.wire import ReadPiece

_AROUND_CODE_TOKENS = 96
"""What may surround the code in a conversation's answer."""


@dataclass(frozen=True)
class Interface:
    """One way to ask: `body` makes a request, `find` finds the fill. Code brings no `controls` into a prompt."""

    kind: str
    path: str
    body: Callable[[Question], dict[str, Any]]
    read: ReadPiece
    find: Callable[[str, Question, bool], Block]
    controls: tuple[str, ...] = ()
    context_tokens: int = 0
    sees_drafts: bool = False

    def fitted(self, text: str, question: Question, *, ended: bool) -> str:
        """A fill without a repeat of the hole's surroundings, which conversations tend to add."""
        if not self.sees_drafts:
            return text
        return conversation.fitted(text, question) if ended else conversation.begun(text, question.prefix)


def of_family(kind: str, model: str, tokens: FimTokens, *, rich: bool) -> Interface:
    """`/v1/completions` with a family's tokens. `rich`: asks for probabilities, and for visible special tokens."""

    def body(question: Question) -> dict[str, Any]:
        prompt = tokens.prompt(question.prefix, question.suffix, question.path, question.context)
        stop = [*tokens.controls, *_line_end(question)]
        more = {"logprobs": 1, "skip_special_tokens": False} if rich else {}
        return {"model": model, "prompt": prompt, **_common(question, stop if rich else stop[:4]), **more}

    context = CONTEXT_TOKENS if tokens.repository else 0
    find = _until(tokens.controls)
    return Interface(
        kind, "/v1/completions", body, wire.choice, find=find, controls=tokens.controls, context_tokens=context
    )


def with_suffix(model: str, *, rich: bool) -> Interface:
    """`/v1/completions` with a suffix: the server knows the model's tokens."""

    def body(question: Question) -> dict[str, Any]:
        around = {"model": model, "prompt": question.prefix, "suffix": question.suffix}
        return {**around, **_common(question, _line_end(question)), **({"logprobs": 1} if rich else {})}

    return Interface("suffix", "/v1/completions", body, wire.choice, find=_until(()))


def llama_infill(model: str, *, rich: bool) -> Interface:
    """llama.cpp's `/infill`. It truncates prefix and suffix itself, and accepts other files."""

    def body(question: Question) -> dict[str, Any]:
        common = _common(question, _line_end(question))
        common["n_predict"] = common.pop("max_tokens")
        others = [{"filename": each.path, "text": each.text} for each in question.context]
        around = {"input_prefix": question.prefix, "input_suffix": question.suffix, "input_extra": others}
        return {"model": model, **around, **common, **({"n_probs": 1} if rich else {})}

    return Interface("infill", "/infill", body, wire.infill, find=_until(()), context_tokens=CONTEXT_TOKENS)


def chat(model: str, *, rich: bool) -> Interface:
    """`/v1/chat/completions`. `rich`: asks for probabilities, and for no thinking if the model allows that."""

    def body(question: Question) -> dict[str, Any]:
        common = _common(question, [])
        common["max_tokens"] += _AROUND_CODE_TOKENS if question.max_tokens > 1 else 0
        more = {"logprobs": True, "chat_template_kwargs": {"enable_thinking": False}} if rich else {}
        said = [{"role": "user", "content": conversation.message(question)}]
        return {"model": model, "messages": said, **common, **more}

    return Interface(
        "chat",
        "/v1/chat/completions",
        body,
        wire.choice,
        find=_spoken,
        context_tokens=CONTEXT_TOKENS,
        sees_drafts=True,
    )


def _common(question: Question, stop: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"max_tokens": question.max_tokens, "temperature": question.temperature, "stream": True}
    found |= {"stop": stop} if stop else {}
    return found if question.seed is None else {**found, "seed": question.seed}


def _line_end(question: Question) -> list[str]:
    return ["\n"] if question.single_line else []


def _until(controls: tuple[str, ...]) -> Callable[[str, Question, bool], Block]:
    """Finds the fill if it is the whole answer, up to a control token or the end of the only line."""

    def find(answer: str, question: Question, _ended: bool) -> Block:
        ends = [at for token in controls if (at := answer.find(token)) >= 0]
        if question.single_line and answer:
            line = answer.splitlines()[0]
            ends += [len(line)] if len(line) < len(answer) else []
        return Block(0, min(ends, default=len(answer)), bool(ends))

    return find


def _spoken(answer: str, question: Question, ended: bool) -> Block:
    """Finds the fill in a conversation's answer. For a single line, waits for nothing behind it."""
    block = conversation.block(answer, ended=ended)
    is_whole = block.is_closed and ended
    if question.single_line:
        text = conversation.begun(answer[block.start : block.end], question.prefix)
        is_whole = "\n" in text.lstrip("\n")
    return Block(block.start, block.end, is_whole)


def most_characters(question: Question) -> int:
    """An answer longer than this ignores `max_tokens`."""
    return (question.max_tokens + _AROUND_CODE_TOKENS) * CHARACTERS_PER_TOKEN * 8

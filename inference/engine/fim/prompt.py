"""Builds the model's prompt for one hole, the required start of the text behind it, and the test for its end.

The prompt ends where the hole's line begins, and the text between there and the hole is given, so the prompt stays the
same while a line is typed. The last given token is decoded again: half a word seldom tokenises like the whole word.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.ending import Ending
from inference.engine.canvas import cutting, repetition
from inference.engine.canvas.plan import TextAndHoles
from inference.engine.errors import RequestError
from inference.engine.fim import chat, question
from inference.engine.fim.question import CHARACTERS_PER_TOKEN, Question
from inference.engine.loaded_model import LoadedModel
from inference.messages import Hole, InfillRequest

_decoder = codecs.getincrementaldecoder("utf-8")
_MOST_GIVEN_CHARACTERS = 400
"""The start of a longer line belongs to the prompt."""
_LEAST_SHARE = 1 / 64
_QUICK_TOKENS = 32
"""The most tokens of an automatic line; several lines get this many times as many."""
_QUICK_LINES = 3
_CONTEXT_SHARE = 4
"""Pieces of other files get one part in this many of the prefix's room: 256 tokens won as many held-out lines as 512,
and lost fewer.
"""


@dataclass(frozen=True)
class Reach:
    """Which share of the usual text before and behind a hole the model sees, and whether other `files`."""

    prefix: float = 1.0
    suffix: float = 1.0
    files: bool = False


SHORTEST = Reach(1 / 8, 1 / 8)
_REACHES = (Reach(files=True), Reach(), Reach(suffix=1 / 4), Reach(suffix=1 / 16), SHORTEST)
"""The most first. Where the deadline leaves no time to read it all, other files go first, then text behind the hole,
then text in front of it: that comes first in the prompt and is often known, the former is read again at each new place.
"""
_SUFFIX_FIRST_REACHES = (Reach(), Reach(1 / 2, 1 / 2), Reach(1 / 4, 1 / 4), SHORTEST)
"""Where the suffix comes first, nothing is known at a new place."""


@dataclass(frozen=True)
class HolePrompt:
    """One hole for the model. Its fill is `head` plus the model's text after the first `skip` bytes.

    The model must begin with `given`. `ending` takes what follows `head`. `question` is the text of a chat turn; None:
    the prompt is the model's own for a hole.
    """

    ids: tuple[int, ...]
    given: bytes
    skip: int
    head: str
    minimum: int
    room: int
    single_line: bool
    ending: Ending = field(default_factory=Ending)
    question: Question | None = None

    def end_in(self, data: bytes, last: bytes) -> int | None:
        """Where in `data`, the model's output ending in the token `last`, the text ends; None: it continues."""
        if self.question is not None:
            if not any(mark in last for mark in (b"`", b"~", b"\n")):
                return None
            answer = self._answer(data.decode("utf-8", errors="replace"))
            return len(data) if chat.block(answer, ended=False).is_closed else None
        breaks = [at for mark in (b"\n", b"\r") if (at := data.find(mark, len(self.given))) >= 0]
        if self.single_line and breaks:
            return min(breaks)
        begins_line = not self.single_line and not data[: -len(last)].rpartition(b"\n")[2].strip()
        if not begins_line and not any(mark in last for mark in (b")]}\"'`/" if self.single_line else b"\n")):
            return None
        text = data[self.skip :].decode("utf-8", errors="replace")
        kept = self.ending.in_brackets(text) if self.single_line else self.ending.of_lines(text)
        end = self.skip + len(kept.encode())
        if kept == text or end < len(self.given):  # the given text always stays
            return len(data) if not self.single_line and repetition.repeats(text) else None
        return end

    def text(self, data: bytes, *, ended: bool = True) -> str:
        """The fill, from the model's output so far. Leaves out half a character at its end."""
        text = _decoder("replace").decode(data[self.skip :])
        if self.question is None:
            return self.head + (self._cut(text) if ended and self.single_line else text)
        block = chat.block(self._answer(text), ended=ended)
        code = self._answer(text)[block.start : block.end]
        fitted = chat.fitted(code, self.question) if ended else chat.begun(code, self.question.prefix)
        return self.head + fitted

    def _cut(self, text: str) -> str:
        """The text of a line without the rest of the line, if it runs into that."""
        cut = self.ending.in_line(text)
        return cut if cut.startswith(self.given[self.skip :].decode()) else text

    def _answer(self, text: str) -> str:
        return (_opening(self.question) if self.question else "") + text


class PromptBuilder:
    """Builds the prompts for the holes of one request, each with all its surroundings."""

    def __init__(self, model: LoadedModel, request: InfillRequest) -> None:
        self._model = model
        self._family = model.middle
        self._request = request
        self.chats = bool(request.instruction) and self._family.chat_prompt("") is not None
        """Whether to ask in a chat turn: there is an instruction, and the model has learnt to chat."""
        self.reaches = _SUFFIX_FIRST_REACHES if self._family.is_suffix_first else _REACHES
        self._files = question.fitting(request.context, context_tokens(model))

    def of(self, parts: TextAndHoles, fills: Sequence[str], number: int, reach: Reach = _REACHES[0]) -> HolePrompt:
        """Hole `number` between the `fills` of all others. Raises RequestError if no prompt is short enough."""
        hole = parts.holes[number]
        before = "".join(text + fill for text, fill in zip(parts.texts[:number], fills, strict=False))
        before += parts.texts[number]
        after = "".join(fill + text for fill, text in zip(fills[number + 1 :], parts.texts[number + 2 :], strict=True))
        after = parts.texts[number + 1] + after
        most = self._model.traits.continuable_tokens
        while reach.prefix >= _LEAST_SHARE:
            prompt = (self._chat if self.chats else self._middle)(hole, before, after, reach)
            if len(prompt.ids) + len(prompt.given) + prompt.room <= most:
                return prompt
            reach = Reach() if reach.files else Reach(reach.prefix / 2, reach.suffix / 2)
        raise RequestError("the hole, or the instruction, is too long for this model; select less, or say it shorter")

    @property
    def short_tokens(self) -> int:
        properties = self._model.properties
        return int(properties.max_prefix_tokens * SHORTEST.prefix + properties.suffix_tokens * SHORTEST.suffix)

    def ahead(self, parts: TextAndHoles, number: int) -> list[int]:
        """The prompt of a hole further on with the same start: holes elsewhere will begin with most of its tokens.

        Where the suffix comes first, those a little further on do, in front of the same suffix.
        """
        if self._family.is_suffix_first:
            return list(self.of(parts, [""] * len(parts.holes), number).ids)
        before = "".join(parts.texts[: number + 1])
        after = "".join(parts.texts[number + 1 :])
        most = self._model.properties.max_prefix_tokens * CHARACTERS_PER_TOKEN
        start = cutting.window_start(before, most)
        text = (before + parts.holes[number].starts_with + after)[start : start + most]
        return self._family.middle_prompt(self._others(_REACHES[0]) + text, "")

    def _middle(self, hole: Hole, before: str, after: str, reach: Reach) -> HolePrompt:
        whole = before + hole.starts_with
        base = _base(before, whole)
        prefix, suffix = self._around(whole[:base], after, reach)
        ids = self._family.middle_prompt(self._others(reach) + prefix, suffix)
        skip = len(whole[base : max(base, len(before))].encode())
        head = hole.starts_with[: max(0, base - len(before))]
        typed, is_text = hole.starts_with[len(head) :], self._request.language == "markdown"
        ending = Ending(
            before + head,
            after,
            typed,
            current=hole.text,
            closable=hole.closable,
            quotes=hole.quotes,
            has_fences=is_text,
        )
        return HolePrompt(
            tuple(ids),
            whole[base:].encode(),
            skip,
            head,
            0 if self._request.quick and hole.min_tokens == 1 else hole.min_tokens,
            self._room(hole),
            hole.single_line,
            ending,
        )

    def _chat(self, hole: Hole, before: str, after: str, reach: Reach) -> HolePrompt:
        """A chat turn; its answer begins with the opening fence."""
        prefix, suffix = self._around(before + hole.starts_with, after, reach)
        request = self._request
        draft = hole.text if question.is_rewritten(hole) else ""
        files = self._files if reach.files else ()
        room = question.room(hole)
        asked = Question(
            prefix, suffix, hole.single_line, room, request.path, request.language, files, request.instruction, draft
        )
        ids = self._family.chat_prompt(chat.message(asked), _opening(asked)) or []
        room += question.tokens(prefix.rpartition("\n")[2]) + 8
        return HolePrompt(tuple(ids), b"", 0, hole.starts_with, 1, room, hole.single_line, question=asked)

    def _others(self, reach: Reach) -> str:
        """Pieces of other files as plain text, the most useful last: it is nearest to the hole."""
        shown = reversed(self._files) if reach.files else ()
        return "".join(f"{each.text.rstrip()}\n\n" for each in shown)

    def _around(self, before: str, after: str, reach: Reach) -> tuple[str, str]:
        """The visible part of the file. Its start stays fixed while a long prefix grows by some lines."""
        properties = self._model.properties
        most = int(properties.max_prefix_tokens * reach.prefix) * CHARACTERS_PER_TOKEN
        start = cutting.window_start(before, max(1, most))
        end = int(properties.suffix_tokens * reach.suffix) * CHARACTERS_PER_TOKEN
        return before[start:], cutting.start_of(after, end)

    def _room(self, hole: Hole) -> int:
        room = question.room(hole)
        if not self._request.quick or hole.max_tokens:
            return room
        return min(room, _QUICK_TOKENS * (1 if hole.single_line else _QUICK_LINES))


def context_tokens(model: LoadedModel) -> int:
    """A prompt's room for other files. Behind a suffix they would be read again at each new place."""
    return 0 if model.middle.is_suffix_first else model.properties.max_prefix_tokens // _CONTEXT_SHARE


def _base(before: str, whole: str) -> int:
    """Where the given text begins: with the hole's line, or far enough into it that the rest is not too long."""
    base = max(before.rfind("\n"), before.rfind("\r")) + 1
    if len(whole) - base > _MOST_GIVEN_CHARACTERS:
        base = whole.rfind("\n", base) + 1 or base
    over = len(whole) - base - _MOST_GIVEN_CHARACTERS
    step = _MOST_GIVEN_CHARACTERS // 2
    return base + max(0, -(-over // step) * step)


def _opening(asked: Question) -> str:
    language = asked.language if asked.language.isalnum() else ""
    return f"{chat.fence(asked)}{language}\n"

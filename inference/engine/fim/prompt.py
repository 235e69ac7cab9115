"""Builds the model's prompt for one hole, the required start of the text behind it, and the test for its end.

The prompt ends where the hole's line begins, and the text between there and the hole is given, so the prompt stays the
same while a line is typed. The last given token is decoded again: half a word seldom tokenises like the whole word.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.ending import Ending
from inference.engine import text_window
from inference.engine.canvas import repetition
from inference.engine.canvas.plan import TextAndHoles
from inference.engine.errors import RequestError
from inference.engine.fim import chat, query
from inference.engine.fim.query import CHARACTERS_PER_TOKEN, InfillQuery
from inference.engine.loaded_model import LoadedModel
from inference.messages import Hole, InfillRequest

_decoder = codecs.getincrementaldecoder("utf-8")
_MAX_FORCED_CHARS = 400
"""The start of a longer line belongs to the prompt."""
_MIN_WINDOW_SHARE = 1 / 64
_MAX_QUICK_TOKENS = 32
"""The most tokens of an automatic line; several lines get this many times as many."""
_QUICK_BLOCK_FACTOR = 3
_CONTEXT_SHARE = 4
"""Pieces of other files get one part in this many of the prefix's room: 256 tokens won as many held-out lines as 512,
and lost fewer.
"""


@dataclass(frozen=True)
class PromptWindow:
    """Which share of the usual text before and behind a hole the model sees, and whether other `files`."""

    prefix: float = 1.0
    suffix: float = 1.0
    files: bool = False


MIN_WINDOW = PromptWindow(1 / 8, 1 / 8)
_WINDOWS = (
    PromptWindow(files=True),
    PromptWindow(),
    PromptWindow(suffix=1 / 4),
    PromptWindow(suffix=1 / 16),
    MIN_WINDOW,
)
"""The most first. Where the deadline leaves no time to read it all, other files go first, then text behind the hole,
then text in front of it: that comes first in the prompt and is often known, the former is read again at each new place.
"""
_SUFFIX_FIRST_WINDOWS = (PromptWindow(), PromptWindow(1 / 2, 1 / 2), PromptWindow(1 / 4, 1 / 4), MIN_WINDOW)
"""Where the suffix comes first, nothing is known at a new place."""


@dataclass(frozen=True)
class FimPrompt:
    """One hole for the model. Its fill is `fill_prefix` plus the model's text after the first `healed_bytes`.

    The model must begin with `forced`. `ending` takes what follows `fill_prefix`. `query` is the text of a chat turn;
    None: the prompt is the model's own for a hole.
    """

    ids: tuple[int, ...]
    forced: bytes
    healed_bytes: int
    fill_prefix: str
    min_tokens: int
    max_new_tokens: int
    single_line: bool
    ending: Ending = field(default_factory=Ending)
    query: InfillQuery | None = None

    def find_stop(self, data: bytes, last: bytes) -> int | None:
        """Where in `data`, the model's output ending in the token `last`, the text ends; None: it continues."""
        if self.query is not None:
            if not any(mark in last for mark in (b"`", b"~", b"\n")):
                return None
            answer = self._answer(data.decode("utf-8", errors="replace"))
            return len(data) if chat.find_block(answer, ended=False).is_closed else None
        breaks = [at for mark in (b"\n", b"\r") if (at := data.find(mark, len(self.forced))) >= 0]
        if self.single_line and breaks:
            return min(breaks)
        begins_line = not self.single_line and not data[: -len(last)].rpartition(b"\n")[2].strip()
        if not begins_line and not any(mark in last for mark in (b")]}\"'`/" if self.single_line else b"\n")):
            return None
        text = data[self.healed_bytes :].decode("utf-8", errors="replace")
        kept = self.ending.in_brackets(text) if self.single_line else self.ending.of_lines(text)
        end = self.healed_bytes + len(kept.encode())
        if kept == text or end < len(self.forced):  # the given text always stays
            return len(data) if not self.single_line and repetition.is_repetitive(text) else None
        return end

    def text(self, data: bytes, *, ended: bool = True) -> str:
        """The fill, from the model's output so far. Leaves out half a character at its end."""
        text = _decoder("replace").decode(data[self.healed_bytes :])
        if self.query is None:
            return self.fill_prefix + (self._cut(text) if ended and self.single_line else text)
        block = chat.find_block(self._answer(text), ended=ended)
        code = self._answer(text)[block.start : block.end]
        fitted = chat.finished_text(code, self.query) if ended else chat.partial_text(code, self.query.prefix)
        return self.fill_prefix + fitted

    def _cut(self, text: str) -> str:
        """The text of a line without the rest of the line, if it runs into that."""
        cut = self.ending.in_line(text)
        return cut if cut.startswith(self.forced[self.healed_bytes :].decode()) else text

    def _answer(self, text: str) -> str:
        return (_opening_fence(self.query) if self.query else "") + text


class PromptBuilder:
    """Builds the prompts for the holes of one request, each with all its surroundings."""

    def __init__(self, model: LoadedModel, request: InfillRequest) -> None:
        self._model = model
        self._family = model.fim
        self._request = request
        self.uses_chat = bool(request.instruction) and self._family.chat_prompt("") is not None
        """Whether to ask in a chat turn: there is an instruction, and the model has learnt to chat."""
        self.windows = _SUFFIX_FIRST_WINDOWS if self._family.is_suffix_first else _WINDOWS
        self._files = query.fit_snippets(request.context, context_tokens(model))

    def build(
        self, parts: TextAndHoles, fills: Sequence[str], number: int, reach: PromptWindow = _WINDOWS[0]
    ) -> FimPrompt:
        """Hole `number` between the `fills` of all others. Raises RequestError if no prompt is short enough."""
        hole = parts.holes[number]
        before = "".join(text + fill for text, fill in zip(parts.texts[:number], fills, strict=False))
        before += parts.texts[number]
        after = "".join(fill + text for fill, text in zip(fills[number + 1 :], parts.texts[number + 2 :], strict=True))
        after = parts.texts[number + 1] + after
        most = self._model.traits.continuable_tokens
        while reach.prefix >= _MIN_WINDOW_SHARE:
            prompt = (self._chat_prompt if self.uses_chat else self._fim_prompt)(hole, before, after, reach)
            if len(prompt.ids) + len(prompt.forced) + prompt.max_new_tokens <= most:
                return prompt
            reach = PromptWindow() if reach.files else PromptWindow(reach.prefix / 2, reach.suffix / 2)
        raise RequestError("the hole, or the instruction, is too long for this model; select less, or say it shorter")

    @property
    def short_tokens(self) -> int:
        properties = self._model.properties
        return int(properties.max_prefix_tokens * MIN_WINDOW.prefix + properties.suffix_tokens * MIN_WINDOW.suffix)

    def ids_to_prefill(self, parts: TextAndHoles, number: int) -> list[int]:
        """The prompt of a hole further on with the same start: holes elsewhere will begin with most of its tokens.

        Where the suffix comes first, those a little further on do, in front of the same suffix.
        """
        if self._family.is_suffix_first:
            return list(self.build(parts, [""] * len(parts.holes), number).ids)
        before = "".join(parts.texts[: number + 1])
        after = "".join(parts.texts[number + 1 :])
        most = self._model.properties.max_prefix_tokens * CHARACTERS_PER_TOKEN
        start = text_window.window_start(before, most)
        text = (before + parts.holes[number].starts_with + after)[start : start + most]
        return self._family.middle_prompt(self._file_text(_WINDOWS[0]) + text, "")

    def _fim_prompt(self, hole: Hole, before: str, after: str, reach: PromptWindow) -> FimPrompt:
        whole = before + hole.starts_with
        base = _forced_offset(before, whole)
        prefix, suffix = self._crop(whole[:base], after, reach)
        ids = self._family.middle_prompt(self._file_text(reach) + prefix, suffix)
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
        return FimPrompt(
            tuple(ids),
            whole[base:].encode(),
            skip,
            head,
            0 if self._request.quick and hole.min_tokens == 1 else hole.min_tokens,
            self._max_new_tokens(hole),
            hole.single_line,
            ending,
        )

    def _chat_prompt(self, hole: Hole, before: str, after: str, reach: PromptWindow) -> FimPrompt:
        """A chat turn; its answer begins with the opening fence."""
        prefix, suffix = self._crop(before + hole.starts_with, after, reach)
        request = self._request
        draft = hole.text if query.is_rewritten(hole) else ""
        files = self._files if reach.files else ()
        room = query.max_new_tokens(hole)
        asked = InfillQuery(
            prefix, suffix, hole.single_line, room, request.path, request.language, files, request.instruction, draft
        )
        ids = self._family.chat_prompt(chat.message(asked), _opening_fence(asked)) or []
        room += query.estimate_tokens(prefix.rpartition("\n")[2]) + 8
        return FimPrompt(tuple(ids), b"", 0, hole.starts_with, 1, room, hole.single_line, query=asked)

    def _file_text(self, reach: PromptWindow) -> str:
        """Pieces of other files as plain text, the most useful last: it is nearest to the hole."""
        shown = reversed(self._files) if reach.files else ()
        return "".join(f"{each.text.rstrip()}\n\n" for each in shown)

    def _crop(self, before: str, after: str, reach: PromptWindow) -> tuple[str, str]:
        """The visible part of the file. Its start stays fixed while a long prefix grows by some lines."""
        properties = self._model.properties
        most = int(properties.max_prefix_tokens * reach.prefix) * CHARACTERS_PER_TOKEN
        start = text_window.window_start(before, max(1, most))
        end = int(properties.suffix_tokens * reach.suffix) * CHARACTERS_PER_TOKEN
        return before[start:], text_window.first_lines(after, end)

    def _max_new_tokens(self, hole: Hole) -> int:
        room = query.max_new_tokens(hole)
        if not self._request.quick or hole.max_tokens:
            return room
        return min(room, _MAX_QUICK_TOKENS * (1 if hole.single_line else _QUICK_BLOCK_FACTOR))


def context_tokens(model: LoadedModel) -> int:
    """A prompt's room for other files. Behind a suffix they would be read again at each new place."""
    return 0 if model.fim.is_suffix_first else model.properties.max_prefix_tokens // _CONTEXT_SHARE


def _forced_offset(before: str, whole: str) -> int:
    """Where the given text begins: with the hole's line, or far enough into it that the rest is not too long."""
    base = max(before.rfind("\n"), before.rfind("\r")) + 1
    if len(whole) - base > _MAX_FORCED_CHARS:
        base = whole.rfind("\n", base) + 1 or base
    over = len(whole) - base - _MAX_FORCED_CHARS
    step = _MAX_FORCED_CHARS // 2
    return base + max(0, -(-over // step) * step)


def _opening_fence(asked: InfillQuery) -> str:
    language = asked.language if asked.language.isalnum() else ""
    return f"{chat.fence(asked)}{language}\n"

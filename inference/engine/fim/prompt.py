"""Builds the model's prompt for one hole, with the forced start of its output and its stop condition.

The prompt ends where the hole's line begins, and the text from there to the hole is forced, so the prompt stays the
same while a line is typed. The last forced token, and all of half a word, are decoded again (token healing), since half
a word seldom tokenises like the whole word.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.ending import FillEnding
from inference.engine import text_window
from inference.engine.canvas import repetition
from inference.engine.canvas.plan import TextAndHoles
from inference.engine.errors import RequestError
from inference.engine.fim import chat, query
from inference.engine.fim.query import InfillQuery
from inference.engine.loaded_model import LoadedModel
from inference.messages import BYTES_PER_TOKEN, Hole, InfillRequest, estimate_tokens, fit_snippets

_decoder = codecs.getincrementaldecoder("utf-8")
_MAX_FORCED_CHARS = 400
"""The start of a longer line is not forced but part of the prompt."""
_MIN_WINDOW_SHARE = 1 / 64
_MAX_QUICK_TOKENS = 32
"""The token limit of one line of an automatic request, or of prose, where sentence follows sentence. Several lines of
an automatic request get `_QUICK_BLOCK_FACTOR` times as many.
"""
_QUICK_BLOCK_FACTOR = 3
_CONTEXT_SHARE = 1 / 4
"""Other files get this share of the prefix's tokens: 256 won as many held-out lines as 512, and lost fewer."""


@dataclass(frozen=True)
class PromptWindow:
    """The shares of the usual prefix and suffix that the model sees, and whether it sees other files."""

    prefix_share: float = 1.0
    suffix_share: float = 1.0
    shows_files: bool = False


MIN_WINDOW = PromptWindow(1 / 8, 1 / 8)
_WINDOWS = (
    PromptWindow(shows_files=True),
    PromptWindow(),
    PromptWindow(suffix_share=1 / 4),
    PromptWindow(suffix_share=1 / 16),
    PromptWindow(1 / 4, 1 / 4),
    MIN_WINDOW,
)
"""Largest first. Without the time to read all of it, other files are left out first, then the suffix, which is read
again at each new position, then the prefix, which comes first in the prompt and is often cached.
"""
_SUFFIX_FIRST_WINDOWS = (PromptWindow(), PromptWindow(1 / 2, 1 / 2), PromptWindow(1 / 4, 1 / 4), MIN_WINDOW)
"""Where the suffix comes first in the prompt, nothing is cached at a new position."""


@dataclass(frozen=True)
class FimPrompt:
    """One hole for the model. Its fill is `fill_prefix` plus the model's output after the first `healed_bytes`.

    The output must begin with `forced_start`. `ending` cuts what follows `fill_prefix`. `query` is what a chat turn
    asks; None for a FIM prompt.
    """

    ids: tuple[int, ...]
    forced_start: bytes
    healed_bytes: int
    fill_prefix: str
    min_tokens: int
    max_new_tokens: int
    single_line: bool
    ending: FillEnding = field(default_factory=FillEnding)
    is_prose: bool = False
    query: InfillQuery | None = None

    def find_stop(self, data: bytes, last: bytes) -> int | None:
        """The offset in `data`, output that ends with the token `last`, where the fill ends; None if it continues."""
        if self.query is not None:
            if not any(mark in last for mark in (b"`", b"~", b"\n")):
                return None
            answer = self._answer(data.decode("utf-8", errors="replace"))
            return len(data) if chat.find_code_block(answer, ended=False).is_closed else None
        breaks = [offset for mark in (b"\n", b"\r") if (offset := data.find(mark, len(self.forced_start))) >= 0]
        if self.single_line and breaks:
            return min(breaks)
        begins_line = not self.single_line and not data[: -len(last)].rpartition(b"\n")[2].strip()
        if not begins_line and not any(mark in last for mark in (b")]}\"'`/" if self.single_line else b"\n")):
            return None
        text = data[self.healed_bytes :].decode("utf-8", errors="replace")
        cut_text = self.ending.cut_at_closer(text) if self.single_line else self.ending.cut_unfinished(text)
        end = self.healed_bytes + len(cut_text.encode())
        if cut_text == text or end < len(self.forced_start):  # the forced text always stays
            return len(data) if not self.single_line and repetition.is_repetitive(text) else None
        return end

    def text(self, data: bytes, *, ended: bool = True) -> str:
        """The fill in the model's output `data`, without an incomplete character at its end."""
        text = _decoder("replace").decode(data[self.healed_bytes :])
        if self.query is None:
            return self.fill_prefix + (self._cut(text) if ended and self.single_line else text)
        block = chat.find_code_block(self._answer(text), ended=ended)
        code = self._answer(text)[block.start : block.end]
        fitted = chat.finished_fill(code, self.query) if ended else chat.partial_fill(code, self.query.prefix)
        return self.fill_prefix + fitted

    def _cut(self, text: str) -> str:
        """Cuts a copy of the line's suffix off a single-line text."""
        cut = self.ending.cut_at_closer_or_line_suffix(text)
        return cut if cut.startswith(self.forced_start[self.healed_bytes :].decode()) else text

    def _answer(self, text: str) -> str:
        return (_opening_fence(self.query) if self.query else "") + text


class PromptBuilder:
    """Builds the prompts for the holes of one request."""

    def __init__(self, model: LoadedModel, request: InfillRequest) -> None:
        self._model = model
        self._adapter = model.fim_adapter
        self._request = request
        self.uses_chat = bool(request.instruction) and self._adapter.chat_prompt("") is not None
        """Whether there is an instruction and the model has a chat template."""
        self.windows = _SUFFIX_FIRST_WINDOWS if self._adapter.is_suffix_first else _WINDOWS
        self._name = "" if request.name_comment else request.path
        """The file's name for the model's own file-name token; empty if a comment gives the name."""
        self._files = tuple(fit_snippets(request.context, max_snippet_tokens(model)))

    def build(
        self, parts: TextAndHoles, fills: Sequence[str], index: int, window: PromptWindow = _WINDOWS[0]
    ) -> FimPrompt:
        """The prompt of one hole, given the `fills` of the others. Raises RequestError if none is short enough."""
        hole = parts.holes[index]
        prefix = "".join(text + fill for text, fill in zip(parts.texts[:index], fills, strict=False))
        prefix += parts.texts[index]
        suffix = "".join(fill + text for fill, text in zip(fills[index + 1 :], parts.texts[index + 2 :], strict=True))
        suffix = parts.texts[index + 1] + suffix
        max_tokens = self._model.traits.continuable_tokens
        while window.prefix_share >= _MIN_WINDOW_SHARE:
            prompt = (self._chat_prompt if self.uses_chat else self._fim_prompt)(hole, prefix, suffix, window)
            if len(prompt.ids) + len(prompt.forced_start) + prompt.max_new_tokens <= max_tokens:
                return prompt
            window = (
                PromptWindow() if window.shows_files else PromptWindow(window.prefix_share / 2, window.suffix_share / 2)
            )
        raise RequestError(
            "the hole or the instruction is too long for this model; select less, or shorten the instruction"
        )

    @property
    def short_tokens(self) -> int:
        infill_config = self._model.infill_config
        return int(
            infill_config.max_prefix_tokens * MIN_WINDOW.prefix_share
            + infill_config.suffix_tokens * MIN_WINDOW.suffix_share
        )

    def _fim_prompt(self, hole: Hole, prefix: str, suffix: str, window: PromptWindow) -> FimPrompt:
        typed_prefix = prefix + hole.starts_with
        base = _forced_offset(prefix, typed_prefix)
        named_prefix = query.prepend_name_comment(self._request.name_comment, typed_prefix[:base])
        visible_prefix, visible_suffix = self._crop(named_prefix, suffix, window)
        ids = self._adapter.fim_prompt(self._file_text(window) + visible_prefix, visible_suffix, self._name)
        healed_bytes = len(typed_prefix[base : max(base, len(prefix))].encode())
        fill_prefix = hole.starts_with[: max(0, base - len(prefix))]
        typed, is_text = hole.starts_with[len(fill_prefix) :], self._request.language == "markdown"
        ending = FillEnding(
            prefix + fill_prefix,
            suffix,
            typed,
            current=hole.text,
            name=None if is_text else self._request.path,
            closable=hole.closable,
            quotes=hole.quotes,
            has_fences=is_text,
        )
        is_prose = is_text or ending.is_in_prose
        return FimPrompt(
            tuple(ids),
            typed_prefix[base:].encode(),
            healed_bytes,
            fill_prefix,
            0 if hole.may_be_empty and not ending.needs_text else hole.min_tokens,
            self._max_new_tokens(hole, is_prose=is_prose),
            hole.single_line,
            ending,
            is_prose,
        )

    def _chat_prompt(self, hole: Hole, prefix: str, suffix: str, window: PromptWindow) -> FimPrompt:
        """A chat turn whose answer begins with the opening fence."""
        prefix, suffix = self._crop(prefix + hole.starts_with, suffix, window)
        request = self._request
        draft = hole.text if query.is_rewrite(hole) else ""
        files = self._files if window.shows_files else ()
        limit = query.max_new_tokens(hole)
        chat_query = InfillQuery(
            prefix, suffix, hole.single_line, limit, request.path, request.language, files, request.instruction, draft
        )
        ids = self._adapter.chat_prompt(chat.user_message(chat_query), _opening_fence(chat_query)) or []
        limit += estimate_tokens(prefix.rpartition("\n")[2]) + 8
        return FimPrompt(tuple(ids), b"", 0, hole.starts_with, 1, limit, hole.single_line, query=chat_query)

    def _file_text(self, window: PromptWindow) -> str:
        """The snippets of other files as plain text. The most useful is last, nearest to the hole."""
        snippets = reversed(self._files) if window.shows_files else ()
        return "".join(f"{snippet.text.rstrip()}\n\n" for snippet in snippets)

    def _crop(self, prefix: str, suffix: str, window: PromptWindow) -> tuple[str, str]:
        """The prefix and suffix that the model sees. The start of a long prefix moves only every few lines."""
        infill_config = self._model.infill_config
        max_chars = int(infill_config.max_prefix_tokens * window.prefix_share) * BYTES_PER_TOKEN
        start = text_window.window_start(prefix, max(1, max_chars))
        end = int(infill_config.suffix_tokens * window.suffix_share) * BYTES_PER_TOKEN
        return prefix[start:], text_window.first_lines(suffix, end)

    def _max_new_tokens(self, hole: Hole, *, is_prose: bool) -> int:
        max_tokens = query.max_new_tokens(hole)
        is_sentence = is_prose and hole.single_line and not query.is_rewrite(hole)
        if hole.max_tokens or not (self._request.quick or is_sentence):
            return max_tokens
        return min(max_tokens, _MAX_QUICK_TOKENS * (1 if hole.single_line else _QUICK_BLOCK_FACTOR))


def max_snippet_tokens(model: LoadedModel) -> int:
    """The most tokens of other files in a prompt; 0 where they would follow the suffix and never be cached."""
    return 0 if model.fim_adapter.is_suffix_first else int(model.infill_config.max_prefix_tokens * _CONTEXT_SHARE)


def _forced_offset(prefix: str, typed_prefix: str) -> int:
    """The offset where the forced text begins: at the hole's line, or later if the line is too long."""
    base = max(prefix.rfind("\n"), prefix.rfind("\r")) + 1
    if len(typed_prefix) - base > _MAX_FORCED_CHARS:
        base = typed_prefix.rfind("\n", base) + 1 or base
    over = len(typed_prefix) - base - _MAX_FORCED_CHARS
    step = _MAX_FORCED_CHARS // 2
    return base + max(0, -(-over // step) * step)


def _opening_fence(chat_query: InfillQuery) -> str:
    language = chat_query.language if chat_query.language.isalnum() else ""
    return f"{chat.code_fence(chat_query)}{language}\n"

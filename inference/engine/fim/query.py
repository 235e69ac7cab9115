"""What a server of any API needs for one hole: the text around it, cut to the model's context length."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.engine import text_window
from inference.messages import BYTES_PER_TOKEN, Hole, HoleKind, Snippet, estimate_tokens, fit_snippets

_PREFIX_TOKENS = 3_000
_SUFFIX_TOKENS = 1_000
MAX_SNIPPET_TOKENS = 2_048
_MIN_SHARE = 1 / 16
_RESERVED_TOKENS = 256
"""Room for the model's control tokens and, in a chat, for the words of the instruction."""
_REWRITE_FACTOR = 1.5
"""A rewritten text may be this many times as long as the original."""

_FIRST_LINES = ("#!", "<?")
"""The starts of lines that must stay the first of a file."""
_MAX_TOKENS_BY_KIND = {HoleKind.EXPRESSION: 48, HoleKind.LINE: 64}
_MAX_LINE_TOKENS, _MAX_BLOCK_TOKENS = 64, 320
"""The most tokens of a fill, by the kind of its hole, or else by whether it has one line."""


@dataclass(frozen=True)
class InfillQuery:
    """A hole between `prefix`, which ends with the fill's start, and `suffix`. `draft` is a text to improve, if any."""

    prefix: str
    suffix: str
    single_line: bool
    max_tokens: int
    path: str = ""
    language: str = ""
    context: tuple[Snippet, ...] = ()
    instruction: str = ""
    draft: str = ""
    temperature: float = 0.0
    seed: int | None = None


@dataclass(frozen=True)
class PartnerContextWindow:
    """A `share` of the usual text within the server's `context_length` (prompt and answer, in tokens), if known."""

    context_length: int | None = None
    share: float = 1.0

    def smaller(self) -> "PartnerContextWindow | None":
        """Returns windows half as large, for a server that rejects these as too long; None below the minimum."""
        return replace(self, share=self.share / 2) if self.share > _MIN_SHARE else None

    def crop(self, prefix: str, suffix: str, answer_tokens: int, control_tokens: Sequence[str]) -> tuple[str, str]:
        """Returns the prefix and suffix that fit beside `answer_tokens`, cut at line ends and at `control_tokens`."""
        share = self.share * self._fitting_share(answer_tokens)
        prefix = _last_lines(prefix, int(_PREFIX_TOKENS * share) * BYTES_PER_TOKEN)
        suffix = text_window.first_lines(suffix, int(_SUFFIX_TOKENS * share) * BYTES_PER_TOKEN)
        for token in control_tokens:
            prefix = prefix.rpartition(token)[2]
            suffix = suffix.partition(token)[0]
        return prefix, suffix

    def fit_snippets(self, snippets: Sequence[Snippet], used_tokens: int) -> tuple[Snippet, ...]:
        """The snippets of other files that fit beside this many tokens, most useful first."""
        remaining_tokens = int(MAX_SNIPPET_TOKENS * self.share)
        if self.context_length is not None:
            remaining_tokens = min(remaining_tokens, self.context_length - used_tokens - _RESERVED_TOKENS)
        return tuple(fit_snippets(snippets, remaining_tokens))

    def _fitting_share(self, answer_tokens: int) -> float:
        """The share of the usual windows that fits a server with a small context."""
        if self.context_length is None:
            return 1.0
        remaining_tokens = self.context_length - answer_tokens - _RESERVED_TOKENS
        return min(1.0, max(_MIN_SHARE, remaining_tokens / (_PREFIX_TOKENS + _SUFFIX_TOKENS)))


def prepend_name_comment(comment: str, prefix: str) -> str:
    """The prefix below a comment with the file's name, unless its first line must stay first."""
    return prefix if prefix.startswith(_FIRST_LINES) else comment + prefix


def max_new_tokens(hole: Hole) -> int:
    """The most tokens of a fill. A rewrite may be somewhat longer than the text it replaces."""
    if hole.max_tokens:
        return hole.max_tokens
    limit = _MAX_TOKENS_BY_KIND.get(hole.kind, _MAX_LINE_TOKENS if hole.single_line else _MAX_BLOCK_TOKENS)
    return max(limit, int(estimate_tokens(hole.text) * _REWRITE_FACTOR)) if is_rewrite(hole) else limit


def is_rewrite(hole: Hole) -> bool:
    """Whether the fill replaces the hole's current text, so that a partial fill would lose the rest."""
    return bool(hole.text) and 0.0 < hole.strength < 1.0


def _last_lines(text: str, max_chars: int) -> str:
    """The last lines of a text, at most this many characters; part of the last line if that is longer."""
    if len(text) <= max_chars:
        return text
    cut = text[len(text) - max_chars :]
    line_end = cut.find("\n")
    return cut[line_end + 1 :] if 0 <= line_end < len(cut) - 1 else cut

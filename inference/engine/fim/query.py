"""A question about one hole for a server of any interface: the surrounding text, cut to the model's context."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.engine import text_window
from inference.messages import Hole, HoleKind, Snippet

CHARACTERS_PER_TOKEN = 3
"""A low estimate: the server's tokens are unknown here."""
_PREFIX_TOKENS = 3_000
_SUFFIX_TOKENS = 1_000
CONTEXT_TOKENS = 2_048
"""How much text of other files to show, if there is a place for it."""
_MIN_SHARE = 1 / 16
_RESERVED_TOKENS = 256
"""Room for more than the texts: a model's own tokens, and in a conversation the words around them."""
_REWRITE_FACTOR = 1.5
"""How much longer a rewritten text may become."""

_MAX_TOKENS_BY_KIND = {HoleKind.EXPRESSION: 48, HoleKind.ARGUMENTS: 48, HoleKind.LINE: 64}
_ROOM_OF_A_LINE, _ROOM_OF_SEVERAL = 64, 320
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
class Windows:
    """A `share` of the usual text, within the server's limit of `context_tokens` for prompt and answer, if known."""

    context_tokens: int | None = None
    share: float = 1.0

    def smaller(self) -> "Windows | None":
        """Half of it, for a server that rejects this as too long; None if that would be next to nothing."""
        return replace(self, share=self.share / 2) if self.share > _MIN_SHARE else None

    def crop(self, before: str, after: str, answer_tokens: int, controls: Sequence[str]) -> tuple[str, str]:
        """The text around a hole, cut at line ends, without `controls`. `answer_tokens` is what else needs room."""
        share = self.share * self._fitting_share(answer_tokens)
        prefix = _last_lines(before, int(_PREFIX_TOKENS * share) * CHARACTERS_PER_TOKEN)
        suffix = text_window.first_lines(after, int(_SUFFIX_TOKENS * share) * CHARACTERS_PER_TOKEN)
        for token in controls:
            prefix = prefix.rpartition(token)[2]
            suffix = suffix.partition(token)[0]
        return prefix, suffix

    def fit_snippets(self, snippets: Sequence[Snippet], taken_tokens: int) -> tuple[Snippet, ...]:
        """The texts of other files that fit beside this many tokens, most useful first."""
        left = int(CONTEXT_TOKENS * self.share)
        if self.context_tokens is not None:
            left = min(left, self.context_tokens - taken_tokens - _RESERVED_TOKENS)
        return fit_snippets(snippets, left)

    def _fitting_share(self, answer_tokens: int) -> float:
        """The share of the usual windows that fits a server with a small context."""
        if self.context_tokens is None:
            return 1.0
        left = self.context_tokens - answer_tokens - _RESERVED_TOKENS
        return min(1.0, max(_MIN_SHARE, left / (_PREFIX_TOKENS + _SUFFIX_TOKENS)))


def fit_snippets(snippets: Sequence[Snippet], most: int) -> tuple[Snippet, ...]:
    """The first snippets that fit into `most` tokens together; of the one that does not, the whole lines that do."""
    found = list[Snippet]()
    for snippet in snippets:
        most -= estimate_tokens(snippet.path)
        text = text_window.first_lines(snippet.text, max(most, 0) * CHARACTERS_PER_TOKEN)
        most -= estimate_tokens(snippet.text)
        found += [Snippet(snippet.path, text)] if "\n" in text or most >= 0 else []
        if most <= 0:
            break
    return tuple(found)


def estimate_tokens(text: str) -> int:
    """The usual limit for a text in tokens."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def max_new_tokens(hole: Hole) -> int:
    """The most tokens of a fill; one that replaces a text has room for that text and more."""
    if hole.max_tokens:
        return hole.max_tokens
    most = _MAX_TOKENS_BY_KIND.get(hole.kind, _ROOM_OF_A_LINE if hole.single_line else _ROOM_OF_SEVERAL)
    return max(most, int(estimate_tokens(hole.text) * _REWRITE_FACTOR)) if is_rewritten(hole) else most


def is_rewritten(hole: Hole) -> bool:
    """Whether the fill replaces the hole's current text: a partial fill would lose the rest."""
    return bool(hole.text) and 0.0 < hole.strength < 1.0


def _last_lines(text: str, most: int) -> str:
    """The last lines of a text, at most this many characters; less than one line if that is too long."""
    if len(text) <= most:
        return text
    cut = text[len(text) - most :]
    line_end = cut.find("\n")
    return cut[line_end + 1 :] if 0 <= line_end < len(cut) - 1 else cut

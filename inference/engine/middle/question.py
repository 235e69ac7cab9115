"""What a server is asked of one hole, whatever its interface: the text around it, cut to what the model can read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.messages import Hole, HoleKind, Snippet

CHARACTERS_PER_TOKEN = 3
"""An estimate on the low side: the server's tokens are not known here."""
_PREFIX_TOKENS, _SUFFIX_TOKENS = 3_000, 1_000
CONTEXT_TOKENS = 2_048
"""How much text of other files is shown, where there is a place for it."""
_LEAST_SHARE = 1 / 16
_AROUND_TOKENS = 256
"""What is sent and answered beside the texts: a model's own tokens, and in a conversation the words around them."""
_ROOM_FOR_CHANGES = 1.5
"""How much longer a rewritten text may become."""

_ROOM = {
    HoleKind.EXPRESSION: 48,
    HoleKind.ARGUMENTS: 48,
    HoleKind.LINE: 64,
    HoleKind.BODY: 320,
    HoleKind.BLOCK: 320,
    HoleKind.MARKER: 320,
}
"""The tokens of a fill at most, by the kind of its hole."""
_ROOM_OF_A_LINE = 64


@dataclass(frozen=True)
class Question:
    """One hole. `prefix` and `suffix` stand around it; what the fill begins with is the end of `prefix`.

    `draft` is what is to be improved; empty: nothing. `temperature` 0 asks for the likeliest text.
    """

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
    """How much of a file is sent: a `share` of the usual.

    `context_tokens`: what the server takes of prompt and answer together; None: it does not say.
    """

    context_tokens: int | None = None
    share: float = 1.0

    def smaller(self) -> "Windows | None":
        """For a server that says that this is too much: half of it; None where that would be next to nothing."""
        return replace(self, share=self.share / 2) if self.share > _LEAST_SHARE else None

    def around(self, before: str, after: str, answer_tokens: int, controls: Sequence[str]) -> tuple[str, str]:
        """What of the text before and after a hole is sent, cut at line ends, and without `controls`.

        `answer_tokens`: what else takes room, the answer and the draft.
        """
        share = self.share * self._fitting(answer_tokens)
        prefix = _end_of(before, int(_PREFIX_TOKENS * share) * CHARACTERS_PER_TOKEN)
        suffix = _start_of(after, int(_SUFFIX_TOKENS * share) * CHARACTERS_PER_TOKEN)
        for token in controls:
            prefix = prefix.rpartition(token)[2]
            suffix = suffix.partition(token)[0]
        return prefix, suffix

    def context(self, snippets: Sequence[Snippet], taken_tokens: int) -> tuple[Snippet, ...]:
        """Return the texts of other files that fit beside so many tokens, the most useful first."""
        kept: list[Snippet] = []
        left = int(CONTEXT_TOKENS * self.share)
        if self.context_tokens is not None:
            left = min(left, self.context_tokens - taken_tokens - _AROUND_TOKENS)
        for snippet in snippets:
            left -= tokens(snippet.text) + tokens(snippet.path)
            if left < 0:
                break
            kept.append(snippet)
        return tuple(kept)

    def _fitting(self, answer_tokens: int) -> float:
        """The share of the usual windows that a server with a small context takes."""
        if self.context_tokens is None:
            return 1.0
        left = self.context_tokens - answer_tokens - _AROUND_TOKENS
        return min(1.0, max(_LEAST_SHARE, left / (_PREFIX_TOKENS + _SUFFIX_TOKENS)))


def tokens(text: str) -> int:
    """How many tokens a text has at most, usually."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def room(hole: Hole) -> int:
    """How many tokens a fill has at most; one that takes the place of a text has room for that and more."""
    if hole.max_tokens:
        return hole.max_tokens
    most = min(_ROOM[hole.kind], _ROOM_OF_A_LINE) if hole.single_line else _ROOM[hole.kind]
    return max(most, int(tokens(hole.text) * _ROOM_FOR_CHANGES)) if is_written_anew(hole) else most


def is_written_anew(hole: Hole) -> bool:
    """Whether the fill takes the place of a text that the hole has: a part of one would lose the rest."""
    return bool(hole.text) and 0.0 < hole.strength < 1.0


def _end_of(text: str, most: int) -> str:
    """The last lines of a text, of at most so many characters; less than one line where that is too long."""
    if len(text) <= most:
        return text
    cut = text[len(text) - most :]
    line_end = cut.find("\n")
    return cut[line_end + 1 :] if 0 <= line_end < len(cut) - 1 else cut


def _start_of(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    cut = text[:most]
    line_end = cut.rfind("\n")
    return cut[: line_end + 1] if line_end > 0 else cut

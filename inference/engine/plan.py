"""From a request's segments to canvases: which holes share one, what is pinned on it, where each hole's tokens start.

Holes that are near enough share a canvas and are filled together; the others follow, each canvas seeing the fills of
those before it. Healing: a hole starts one token early, so that text like `x = ` does not end in half a token; that
token's text is what the first row of the hole must begin with.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.engine import prompt
from inference.engine.checkpoint import Properties
from inference.engine.errors import RequestError
from inference.engine.layout import Layout, Pinned, Slots
from inference.engine.vocabulary import Vocabulary
from inference.messages import Hole, HoleKind, InfillRequest, Text

DEFAULT_SLOTS = {
    HoleKind.EXPRESSION: 16,
    HoleKind.ARGUMENTS: 16,
    HoleKind.LINE: 24,
    HoleKind.MARKER: 24,
    HoleKind.BLOCK: 48,
    HoleKind.BODY: 48,
}
"""The most tokens of a hole whose request does not say."""

_SUFFIX_TOKENS = 16
"""Rows kept free behind the last hole of a canvas for what follows it, where something does."""


@dataclass(frozen=True)
class Document:
    """A request's segments as alternating texts and holes: `texts[i]` stands before `holes[i]`, one more at the end."""

    texts: tuple[str, ...]
    holes: tuple[Hole, ...]


@dataclass(frozen=True)
class Group:
    """Consecutive holes `[first, end)` that share a canvas."""

    first: int
    end: int


@dataclass(frozen=True)
class Plan:
    """One canvas to be denoised: what the encoder reads, what stands on it, and the numbers of its holes."""

    prefix_ids: tuple[int, ...]
    layout: Layout
    group: Group


def document_of(request: InfillRequest) -> Document:
    """Neighbouring texts joined. Raises RequestError where there is no hole or a hole's numbers make no sense."""
    texts, holes = [""], []
    for segment in request.segments:
        if isinstance(segment, Text):
            texts[-1] += segment.text
            continue
        _check(segment)
        holes.append(segment)
        texts.append("")
    if not holes:
        raise RequestError("the request has no hole to fill")
    return Document(tuple(texts), tuple(holes))


def _check(hole: Hole) -> None:
    if hole.min_tokens < 1 or (hole.max_tokens and hole.max_tokens < hole.min_tokens):
        raise RequestError(f"a hole of {hole.min_tokens} to {hole.max_tokens} tokens cannot be filled")
    if not 0.0 <= hole.strength <= 1.0:
        raise RequestError(f"a hole's strength is between 0 and 1, not {hole.strength}")


class Planner:
    """Plans the canvases of one request, for one checkpoint."""

    def __init__(self, vocabulary: Vocabulary, properties: Properties, request: InfillRequest) -> None:
        """Raises RequestError where the request cannot be filled by this checkpoint."""
        self._vocabulary, self._properties = vocabulary, properties
        self._frame = prompt.frame(vocabulary, properties, request.path, request.context)
        self.document = document_of(request)
        self.groups = tuple(self._groups())

    def plan(self, group: Group, fills: Sequence[str]) -> Plan:
        """The canvas of a group, seeing the fills of all holes before it."""
        texts, holes = self.document.texts, self.document.holes
        before = "".join(text + fill for text, fill in zip(texts, fills[: group.first], strict=False))
        room = self._properties.max_prefix_tokens - len(self._frame.before)
        ids = prompt.prefix(self._vocabulary, self._properties, before + texts[group.first], max(1, room))
        ids, healed = self._heal(ids)
        parts: list[Pinned | Slots] = []
        for number in range(group.first, group.end):
            parts.append(self._slots(holes[number], healed))
            pinned, healed = self._between(number, last=number + 1 == group.end)
            parts.append(Pinned(pinned))
        return Plan(self._frame.before + ids, Layout(tuple(parts), self._properties.canvas_tokens), group)

    def _groups(self) -> list[Group]:
        """As few groups as fit: a hole joins the canvas before it while its rows, and some suffix, still fit."""
        groups: list[Group] = []
        first, used = 0, 0
        for number, hole in enumerate(self.document.holes):
            rows = self._slots(hole, b"")
            need = len(rows.forced) + rows.maximum + 1
            gap = 0 if number == 0 else self._length(self.document.texts[number])
            spare = min(_SUFFIX_TOKENS, self._length(self.document.texts[number + 1]))
            if number > first and used + gap + need + spare > self._properties.canvas_tokens:
                groups.append(Group(first, number))
                first, used = number, 0
            elif number > first:
                used += gap
            used += need
        return [*groups, Group(first, len(self.document.holes))]

    def _length(self, text: str) -> int:
        """Tokens of a text, as far as it matters for a canvas."""
        canvas = self._properties.canvas_tokens
        return canvas if len(text) > 16 * canvas else len(self._vocabulary.encode(text))

    def _between(self, number: int, *, last: bool) -> tuple[tuple[int, ...], bytes]:
        """What is pinned after a hole, and the bytes healed into the next hole of the same canvas."""
        text = self.document.texts[number + 1]
        ids = tuple(self._vocabulary.encode(text[: 16 * self._properties.canvas_tokens]))
        if not last:
            return self._heal(ids)
        at_end = number + 1 == len(self.document.holes)
        return (ids + self._frame.after if at_end else ids), b""

    def _heal(self, ids: tuple[int, ...]) -> tuple[tuple[int, ...], bytes]:
        """Takes the last token off, and its bytes: the hole that follows must begin with them."""
        healed = self._vocabulary.bytes_of(list(ids[-1:]))
        return (ids[:-1], healed) if healed else (ids, b"")

    def _slots(self, hole: Hole, healed: bytes) -> Slots:
        given = healed + hole.starts_with.encode()
        start = self._vocabulary.encode(given.decode("utf-8", errors="replace")) if given else []
        if self._vocabulary.bytes_of(start) != given:
            start = []  # half a character was healed: nothing the tokenizer can be asked about
        canvas = self._properties.canvas_tokens
        maximum = hole.max_tokens or DEFAULT_SLOTS[hole.kind]
        maximum = max(1, min(maximum, canvas - min(canvas // 4, _SUFFIX_TOKENS) - len(start)))
        if len(start) >= canvas // 2:
            raise RequestError(f"starts_with of {len(start)} tokens leaves no room on a canvas of {canvas}")
        allowed = self._vocabulary.starting_with(self._vocabulary.bytes_of(start[-1:])) if start else None
        return Slots(
            maximum=maximum,
            minimum=min(hole.min_tokens, maximum),
            forced=tuple(start[:-1]),
            allowed=tuple(allowed) if allowed is not None else None,
            skip=len(healed) if start else 0,
            single_line=hole.single_line,
            existing=tuple(self._vocabulary.encode(hole.text)) if hole.text and hole.strength < 1 else (),
        )

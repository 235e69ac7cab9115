"""A request's segments as texts and holes, and the bounds of its numbers."""

from dataclasses import dataclass

import msgspec

from inference.engine.errors import RequestError
from inference.messages import MAX_STEPS, Hole, InfillRequest, Text


@dataclass(frozen=True)
class TextAndHoles:
    """A request's segments as alternating texts and holes: `texts[i]` precedes `holes[i]`, with one more at the end."""

    texts: tuple[str, ...]
    holes: tuple[Hole, ...]

    def pinned(self, number: int, text: str) -> "TextAndHoles":
        """The same with `text`, now typed there, at the start of a hole. Raises RequestError without such a hole."""
        holes = list(self.holes)
        if not 0 <= number < len(holes):
            raise RequestError(f"the request has no hole {number}")
        holes[number] = msgspec.structs.replace(holes[number], starts_with=text, text="", strength=1.0)
        return TextAndHoles(self.texts, tuple(holes))


def text_and_holes(request: InfillRequest) -> TextAndHoles:
    """Joins neighbouring texts. Raises RequestError if there is no hole or a hole's numbers make no sense."""
    texts: list[list[str]] = [[]]
    holes: list[Hole] = []
    for segment in request.segments:
        if isinstance(segment, Text):
            texts[-1].append(segment.text)
            continue
        _check(segment)
        holes.append(segment)
        texts.append([])
    if not holes:
        raise RequestError("the request has no hole to fill")
    if request.max_steps is not None and not 1 <= request.max_steps <= MAX_STEPS:
        raise RequestError(f"max_steps is between 1 and {MAX_STEPS}, not {request.max_steps}")
    return TextAndHoles(tuple(map("".join, texts)), tuple(holes))


def _check(hole: Hole) -> None:
    if hole.min_tokens < 1 or (hole.max_tokens and hole.max_tokens < hole.min_tokens):
        raise RequestError(f"a hole of {hole.min_tokens} to {hole.max_tokens} tokens cannot be filled")
    if not 0.0 <= hole.strength <= 1.0:
        raise RequestError(f"a hole's strength is between 0 and 1, not {hole.strength}")

"""Plans the canvases of a request: its texts and holes, which share a canvas, what is pinned, where each hole starts.

Nearby holes share a canvas and are filled together; the others follow, each canvas seeing the fills of those before it.
Healing: a hole starts one token early, so that text like `x = ` does not end in half a token; the first row of the hole
must begin with that token's text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.engine import text_window
from inference.engine.canvas import prompt
from inference.engine.canvas.layout import CanvasHole, CanvasPlan
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.errors import RequestError
from inference.messages import MAX_STEPS, Hole, InfillRequest, PinnedText
from inference.models.infill_config import InfillConfig

_SUFFIX_TOKENS = 16
"""Rows reserved for the text after the last hole of a canvas, if there is any."""

_MIN_ROWS_SHARE = 0.5
"""Holes give up at most this share of their rows, so that more of them fit on one canvas and are filled together."""


@dataclass(frozen=True)
class TextAndHoles:
    """A request's segments as alternating texts and holes: `texts[i]` precedes `holes[i]`, with one more at the end."""

    texts: tuple[str, ...]
    holes: tuple[Hole, ...]


def text_and_holes(request: InfillRequest) -> TextAndHoles:
    """Joins neighbouring texts. Raises RequestError if there is no hole or a hole's numbers make no sense."""
    texts: list[list[str]] = [[]]
    holes: list[Hole] = []
    for segment in request.segments:
        if isinstance(segment, PinnedText):
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
    stays = hole.strength == 0 or (bool(hole.text) and hole.strength < 1)
    if stays and not hole.text.startswith(hole.starts_with):
        raise RequestError("a hole's text contradicts its starts_with; leave one out, or send a strength of 1")


class CanvasPlanner:
    """Divides a request's holes among canvases, and chooses the prefix and the suffix that each one sees."""

    def __init__(
        self, vocabulary: Vocabulary, infill_config: InfillConfig, request: InfillRequest, *, fills_canvas: bool = False
    ) -> None:
        """`fills_canvas`: wide canvases cost no more than narrow ones. Raises RequestError."""
        self._vocabulary = vocabulary
        self._infill_config = infill_config
        self._fills_canvas = fills_canvas
        self.request = text_and_holes(request)
        for hole in self.request.holes:
            self._check_size(hole)
        near = max(0, min(self._suffix_tokens, infill_config.canvas_tokens - infill_config.slots.line))
        further = prompt.far_suffix_text(vocabulary, infill_config, self.request.texts[-1], near)
        self._infill_request = request
        self._frame = prompt.build_prompt_frame(vocabulary, infill_config, request, further)

    def plan(self, group: range, fills: Sequence[str], *, short: bool = False) -> CanvasPlan:
        """The canvas of a group of holes, with the fills of all holes before it. `short`: with a short prefix."""
        frame = self._frame
        max_prefix_tokens = self._infill_config.max_prefix_tokens
        if short:
            frame = prompt.build_short_frame(self._vocabulary, self._infill_config, self._infill_request)
            max_prefix_tokens = min(max_prefix_tokens, prompt.SHORT_PREFIX_TOKENS)
        texts = self.request.texts
        holes = self.request.holes
        previous_text = "".join(text + fill for text, fill in zip(texts, fills[: group.start], strict=False))
        max_tokens = max(1, max_prefix_tokens - len(frame.leading_ids))
        ids = prompt.tokenise_prefix(
            self._vocabulary, self._infill_config, previous_text + texts[group.start], max_tokens
        )
        ids, healed = self._vocabulary.split_for_healing(ids)
        layouts: list[CanvasHole] = []
        pinned_after: list[tuple[int, ...]] = []
        for index in group:
            layouts.append(self._canvas_hole(holes[index], healed))
            pinned, healed = self._pinned_after(index, last=index + 1 == group.stop)
            pinned_after.append(pinned)
        width = self._infill_config.canvas_tokens
        shrunk = _shrink_to_width(layouts, pinned_after, width)
        return CanvasPlan(frame.leading_ids + ids, shrunk, tuple(pinned_after), width, group)

    def group_from(self, first: int) -> range:
        """The holes from index `first` on that fit on one canvas, with some of the text after them."""
        used = 0
        for index, hole in enumerate(self.request.holes[first:], first):
            layout = self._canvas_hole(hole, ())
            rows = len(layout.forced_ids) + _min_rows(layout) + 1
            gap = 0 if index == first else self._length(self.request.texts[index])
            suffix_rows = min(_SUFFIX_TOKENS, self._length(self.request.texts[index + 1]))
            if index > first and used + gap + rows + suffix_rows > self._infill_config.canvas_tokens:
                return range(first, index)
            used += gap + rows
        return range(first, len(self.request.holes))

    @property
    def _max_chars(self) -> int:
        return text_window.MAX_CHARS_PER_TOKEN * self._infill_config.canvas_tokens

    @property
    def _suffix_tokens(self) -> int:
        """How much of the text after the last hole goes on the canvas. A long fill may leave a gap after it."""
        return self._infill_config.canvas_tokens if self._fills_canvas else self._infill_config.suffix_tokens

    def _check_size(self, hole: Hole) -> None:
        """Raises RequestError if a hole's own text is too long for any canvas."""
        size = max(len(hole.text) if hole.strength < 1 else 0, len(hole.starts_with))
        if size > self._max_chars:
            canvas = self._infill_config.canvas_tokens
            raise RequestError(f"a hole of {size} given characters does not fit a canvas of {canvas}; make it smaller")

    def _length(self, text: str) -> int:
        """The number of tokens of a text, as far as a canvas can use them."""
        long = len(text) > self._max_chars
        return self._infill_config.canvas_tokens if long else len(self._vocabulary.encode(text))

    def _pinned_after(self, index: int, *, last: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The pinned text after a hole, and the token healed into the next hole of the same canvas."""
        text = self.request.texts[index + 1]
        ids = tuple(self._vocabulary.encode(text[: self._max_chars]))
        if not last:
            return self._vocabulary.split_for_healing(ids)
        if index + 1 < len(self.request.holes) or len(ids) > self._suffix_tokens:
            return ids[: self._suffix_tokens], ()
        ids += self._frame.trailing_ids
        if self._frame.filler_id is None or not self._fills_canvas:
            return ids, ()
        return ids + (self._frame.filler_id,) * max(0, self._infill_config.canvas_tokens - len(ids)), ()

    def _canvas_hole(self, hole: Hole, healed: tuple[int, ...]) -> CanvasHole:
        if (hole.text and hole.strength < 1) or hole.strength == 0:
            return self._existing_hole(hole, healed)
        forced, start = self._forced_start(healed, hole.starts_with)
        healed_bytes = len(self._vocabulary.bytes_of(list(healed)))
        max_tokens = hole.max_tokens or self._infill_config.slots.for_kind(hole.kind, self._infill_config.canvas_tokens)
        maximum = max(1, min(max_tokens, self._max_open_rows(len(forced))))
        return CanvasHole(
            max_rows=maximum,
            min_rows=min(hole.min_tokens, maximum),
            forced_ids=forced,
            allowed_ids=self._healing_ids(start, hole) if start else None,
            num_healed_bytes=healed_bytes,
            single_line=hole.single_line,
            num_forced_bytes=healed_bytes + len(hole.starts_with.encode()),
        )

    def _existing_hole(self, hole: Hole, healed: tuple[int, ...]) -> CanvasHole:
        """A hole that starts from its own text, with as many rows as that has tokens, none of them open at strength 0.

        The first row begins with the healed text. That is forced if no token of the text contains it, and so is the
        required start of the fill.
        """
        healed_text = self._vocabulary.bytes_of(list(healed))
        ids = tuple(self._vocabulary.encode(healed_text.decode() + hole.text))
        forced: tuple[int, ...] = ()
        if hole.starts_with or not self._vocabulary.bytes_of(list(ids[:1])).startswith(healed_text):
            forced = (*healed, *self._vocabulary.encode(hole.starts_with))
            ids = tuple(self._vocabulary.encode(hole.text.removeprefix(hole.starts_with)))
        self._max_open_rows(len(forced + ids))
        healed_bytes = len(healed_text)
        if hole.strength == 0:
            num_forced = healed_bytes + len(hole.text.encode())
            return CanvasHole(0, 0, forced + ids, None, healed_bytes, hole.single_line, (), 0.0, num_forced)
        allowed = self._healing_ids(healed_text, hole) if healed_text and not forced else None
        num_forced = healed_bytes + len(hole.starts_with.encode())
        rows = len(ids)
        return CanvasHole(rows, rows, forced, allowed, healed_bytes, hole.single_line, ids, hole.strength, num_forced)

    def _healing_ids(self, start: bytes, hole: Hole) -> tuple[int, ...]:
        return tuple(self._vocabulary.ids_extending(start, single_line=hole.single_line))

    def _max_open_rows(self, used: int) -> int:
        """How many rows a hole may have beside `used` others. Raises RequestError if none."""
        canvas = self._infill_config.canvas_tokens
        max_rows = canvas - min(canvas // 4, _SUFFIX_TOKENS) - used
        if max_rows < 1:
            raise RequestError(f"a hole of {used} given tokens does not fit a canvas of {canvas}; make it smaller")
        return max_rows

    def _forced_start(self, healed: tuple[int, ...], starts_with: str) -> tuple[tuple[int, ...], bytes]:
        """The forced tokens at the start of a hole, and the required start of the next one, if known."""
        healed_text = self._vocabulary.bytes_of(list(healed))
        start = self._vocabulary.encode(healed_text.decode() + starts_with)
        if not start or self._vocabulary.bytes_of(start) != healed_text + starts_with.encode():
            return (*healed, *self._vocabulary.encode(starts_with)), b""
        forced, last = self._vocabulary.split_for_healing(start)
        if not last:
            forced, last = forced[:-1], forced[-1:]
        return forced, self._vocabulary.bytes_of(list(last))


def _min_rows(hole: CanvasHole) -> int:
    """The fewest rows to leave a hole on a crowded canvas."""
    return max(hole.min_rows, int(hole.max_rows * _MIN_ROWS_SHARE))


def _shrink_to_width(
    holes: Sequence[CanvasHole], pinned_after: Sequence[Sequence[int]], width: int
) -> tuple[CanvasHole, ...]:
    """The holes, narrowed equally if they would not fit a canvas of `width` rows at their widest."""
    pinned = sum(map(len, pinned_after[:-1])) + sum(len(hole.forced_ids) for hole in holes)
    suffix = min(_SUFFIX_TOKENS, len(pinned_after[-1]))
    over = pinned + suffix + sum(hole.max_rows for hole in holes) - width
    slack = sum(hole.max_rows - _min_rows(hole) for hole in holes)
    if over <= 0 or slack == 0:
        return tuple(holes)
    share = min(1.0, over / slack)
    return tuple(
        replace(hole, max_rows=hole.max_rows - math.ceil(share * (hole.max_rows - _min_rows(hole)))) for hole in holes
    )

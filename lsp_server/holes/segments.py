"""Turns a text and its holes into the segments of a request, and inserts fills back into a text. Knows no syntax."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from inference.messages import Hole, HoleKind, PinnedText
from lsp_server.syntax.parsing import replace_lone_surrogates

_OTHER_HOLE = "_"
"""The model sees this name instead of a marker. It copied markers that it saw: 11 of 12 bodies consisted of them."""


@dataclass(frozen=True)
class HoleSpan:
    """A hole. Its fill replaces `text[start:end]` and begins with `starts_with`: the typed part of a word, or the line
    end and indentation that the syntax requires. A fill of a `single_line` span has no line end.
    """

    start: int
    end: int
    kind: HoleKind
    starts_with: str = ""
    single_line: bool = False


def build_segments(
    text: str,
    spans: Sequence[HoleSpan],
    prefix: str = "",
    suffix: str = "",
    *,
    marker: str = "",
    strength: float = 1.0,
    drafts: Sequence[str] | None = None,
    max_tokens: int = 0,
) -> tuple[PinnedText | Hole, ...]:
    """`text` as pinned text and holes, in order, between `prefix` and `suffix`, as the model reads it: with a name for
    each `marker` and U+FFFD for each lone surrogate. A hole has the text of its draft, or its own; one to rework stands
    where the syntax requires it. Raises ValueError if spans overlap or reach outside the text, or if there are not as
    many drafts.
    """
    pinned_texts = pinned_pieces(text, spans)
    pinned_texts[0] = prefix + pinned_texts[0]
    pinned_texts[-1] += suffix
    texts = [text[span.start : span.end] for span in spans] if drafts is None else drafts
    if strength < 1:
        texts = [_with_forced_start(current, span.starts_with) for current, span in zip(texts, spans, strict=True)]
    holes = [
        Hole(
            kind=span.kind,
            max_tokens=max_tokens,
            starts_with=replace_lone_surrogates(span.starts_with),
            single_line=span.single_line,
            text=replace_lone_surrogates(current),
            strength=strength,
        )
        for span, current in zip(spans, texts, strict=True)
    ]
    parts: list[PinnedText | Hole] = []
    for pinned_text, hole in zip(pinned_texts, [*holes, None], strict=True):
        parts += [PinnedText(replace_markers(replace_lone_surrogates(pinned_text), marker))] if pinned_text else []
        parts += [hole] if hole else []
    return tuple(parts)


def _with_forced_start(current: str, start: str) -> str:
    return current if not current or current.startswith(start) else start + current.lstrip()


def replace_markers(text: str, marker: str) -> str:
    """`text` as the model reads it: with a name in place of every `marker`. An empty marker means none."""
    return text.replace(marker, _OTHER_HOLE) if marker else text


def splice(text: str, spans: Sequence[HoleSpan], fills: Sequence[str]) -> str:
    """`text` with each span replaced by its fill, and nothing else changed. Raises ValueError as `build_segments`."""
    return "".join(span for pair in zip(pinned_pieces(text, spans), [*fills, ""], strict=True) for span in pair)


def pinned_pieces(text: str, spans: Sequence[HoleSpan]) -> list[str]:
    """The pieces of text before, between and after the spans, one more than there are spans. Raises ValueError."""
    ranges = [(span.start, span.end) for span in spans]
    cuts = [0, *chain.from_iterable(ranges), len(text)]
    if cuts != sorted(cuts) or len({*ranges}) < len(ranges):
        raise ValueError(f"the holes {ranges} overlap or reach outside a text of {len(text)} characters")
    return [text[start:end] for start, end in zip(cuts[::2], cuts[1::2], strict=True)]

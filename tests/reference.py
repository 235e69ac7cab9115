"""A literal second implementation of the protocol's positions and edits, to check the server's."""

import re
from typing import Any

Place = dict[str, int]
Range = dict[str, Place]
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def offset(text: str, place: Place, encoding: str) -> int:
    """The `str` index of a position; one outside the text is clamped, and one inside a character is its start."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    if place["line"] >= len(lines):
        return len(text)
    line = lines[place["line"]].rstrip("\r\n")
    at = used = 0
    while at < len(line) and (used := used + _units(line[at], encoding)) <= place["character"]:
        at += 1
    return sum(map(len, lines[: place["line"]])) + at


def _units(text: str, encoding: str) -> int:
    codec, unit_bytes = _CODECS[encoding]
    return len(text.encode(codec)) // unit_bytes


def position(text: str, at: int, encoding: str) -> Place:
    before = re.split(r"\r\n|\r|\n", text[:at])
    return {"line": len(before) - 1, "character": _units(before[-1], encoding)}


def range_of(text: str, start: int, end: int, encoding: str) -> Range:
    return {"start": position(text, start, encoding), "end": position(text, end, encoding)}


def span(text: str, range_: Range, encoding: str) -> tuple[int, int]:
    """The offsets of a range, which must lie in `text` and divide no character."""
    start, end = (offset(text, range_[name], encoding) for name in ("start", "end"))
    assert range_ == range_of(text, start, end, encoding)
    return start, end


def pieces_around(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """What stands outside the spans, which are in order and do not overlap."""
    cuts = [0, *(at for span in spans for at in span), len(text)]
    assert cuts == sorted(cuts)
    return [text[cuts[i] : cuts[i + 1]] for i in range(0, len(cuts), 2)]


def changed(text: str, change: dict[str, Any], encoding: str) -> str:
    """A text without halves of surrogate pairs after one content change; a backwards range is turned around."""
    start, end = 0, len(text)
    if "range" in change:
        start, end = sorted(offset(text, change["range"][name], encoding) for name in ("start", "end"))
    return text[:start] + whole(change["text"]) + text[end:]


def whole(text: str) -> str:
    """A text without halves of surrogate pairs; JSON cannot tell two halves from a whole."""
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return re.sub("[\ud800-\udfff]", "\ufffd", joined)

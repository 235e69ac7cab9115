"""Finds lines, indentation and words around an offset of a plain text, without reading the rest of it."""

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from inference.ending import is_word_char as is_word_char

LINE_END = re.compile(r"\r\n|[\r\n]")
_INDENT = re.compile(r"[ \t]*")
_INDENTED_LINE = re.compile(r"^([ \t]*)[^\s]", re.MULTILINE)
_NEAR_CHARACTERS = 4000
_CHUNK_CHARACTERS = 512
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Controls, format characters (zero widths, tags), characters without a meaning, surrogates, line separators."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U000e0100-\U000e01ef]"
)
"""Characters of other categories that Unicode calls ignorable, such as variation selectors, and what looks blank."""


def line_start(text: str, offset: int) -> int:
    newline = text.rfind("\n", 0, offset)
    return max(newline, text.rfind("\r", newline + 1, offset)) + 1


def line_end(text: str, offset: int) -> int:
    match = LINE_END.search(text, offset)
    return match.start() if match else len(text)


def end_of_line_before(text: str, offset: int) -> int:
    """The end of the line before the one at `offset`, without its line end; `offset` itself on the first line."""
    start = line_start(text, offset)
    if not start:
        return offset
    return start - 2 if text.endswith("\r\n", 0, start) else start - 1


def is_one_line(text: str, start: int = 0, end: int | None = None) -> bool:
    """Whether there is no line end in [start, end). `end` None means the end of the text."""
    return text.find("\n", start, end) < 0 and text.find("\r", start, end) < 0


def eol_at(text: str, offset: int) -> str:
    """The line end in use: that of the line at `offset`, otherwise of the line before it, otherwise `\n`."""
    match = LINE_END.search(text, offset)
    if match:
        return match.group()
    start = line_start(text, offset)
    if text.endswith("\r\n", 0, start):
        return "\r\n"
    return text[start - 1] if start else "\n"


def normalise_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def newlines_for_lone_cr(text: str, document_text: str) -> str:
    """A part of a `document_text` as models and grammars read it, as long as before: `\\n` where its lines end with a
    carriage return alone. Models answer with these, and where an answer ends is judged by lines that end with `\\n`.
    """
    return text.replace("\r", "\n") if "\r" in document_text and "\n" not in document_text else text


def indentation(text: str, offset: int) -> str:
    """The spaces and tabs at the start of the line at `offset`."""
    match = _INDENT.match(text, line_start(text, offset))
    return match.group() if match else ""


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def is_alone(text: str, start: int, end: int) -> bool:
    """Whether only white space shares the lines of [start, end) with it."""
    return is_blank(text[line_start(text, start) : start]) and is_blank(text[end : line_end(text, end)])


def is_deeper(indent: str | None, outer: str) -> bool:
    """Whether a line indented by `indent` is in the block of one indented by `outer`; None: no line."""
    return indent is not None and len(indent.expandtabs(8)) > len(outer.expandtabs(8))


def next_code_line_indent(text: str, offset: int, line_comment: str = "") -> str | None:
    """The indentation of the next line below `offset` that is neither blank nor a comment; None: there is none."""
    not_comment = rf"(?!{re.escape(line_comment)})" if line_comment else ""
    match = re.compile(rf"[\r\n]([ \t]*)(?=\S){not_comment}").search(text, offset)
    return match.group(1) if match else None


def nonblank_line_above(text: str, offset: int) -> str | None:
    """The nearest line above the one at `offset` that is not blank, without trailing white space; None: no line."""
    end = end_of_text_before(text, line_start(text, offset))
    return text[line_start(text, end) : end] if end else None


def end_of_text_before(text: str, offset: int) -> int:
    """The start of the white space that ends at `offset`; 0 if there is only white space before it."""
    while offset > 0:
        start = max(offset - _CHUNK_CHARACTERS, 0)
        line_prefix = len(text[start:offset].rstrip())
        if line_prefix:
            return start + line_prefix
        offset = start
    return 0


def indent_step(text: str, offset: int, default: str) -> str:
    """One step of indentation: the most common one between lines near `offset`, otherwise `default`."""
    return _step_near(text, offset // _NEAR_CHARACTERS * _NEAR_CHARACTERS) or default


@lru_cache(maxsize=4)
def _step_near(text: str, offset: int) -> str:
    start = line_start(text, max(offset - _NEAR_CHARACTERS, 0))
    steps: Counter[str] = Counter()
    previous: str | None = None
    for match in _INDENTED_LINE.finditer(text, start, min(offset + 2 * _NEAR_CHARACTERS, len(text))):
        indent = match.group(1)
        if previous is not None and indent.startswith(previous) and len(indent) > len(previous):
            steps[indent[len(previous) :]] += 1
        previous = indent
    return steps.most_common(1)[0][0] if steps else ""


def word_before(text: str, offset: int, extra: str = "") -> str:
    """The part of a word that ends at `offset`; empty if there is none."""
    start = offset
    while start > 0 and is_word_char(text[start - 1], extra):
        start -= 1
    return text[start:offset]


def is_invisible(character: str) -> bool:
    """Whether a character is invisible, or no character that every font shows the same. A plain space is seen."""
    return unicodedata.category(character) in _UNSEEN_CATEGORIES or bool(_UNSEEN.match(character))

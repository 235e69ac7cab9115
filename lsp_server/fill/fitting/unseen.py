"""Invisible and misleading characters. A fill may contain only those its document already uses."""

import re
import unicodedata

_SUSPECT = re.compile(r"[^\t\n\r -~]")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, format characters (zero widths, direction marks, tags), surrogates, line separators."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""Other characters that Unicode calls ignorable: fillers and variation selectors."""
_EMOJI = re.compile(
    "[#*0-9]\ufe0f\u20e3|"
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
    "[\U0001f3fb-\U0001f3ff\ufe0f]*(?:\u200d[\u2190-\u2bff\U0001f000-\U0001faff][\U0001f3fb-\U0001f3ff\ufe0f]*)*"
)
"""One emoji: the joiners and selectors in it are part of the visible glyph."""
_BYTE_ORDER_MARK = "\ufeff"


def brings_unseen(fill: str, text: str, typed: str = "") -> bool:
    """Whether `fill` has an invisible character that appears in neither `text` nor `typed`.

    A byte order mark at the start of `text` does not count as a use of that character.
    """
    return any(each not in typed and each not in text.removeprefix(_BYTE_ORDER_MARK) for each in unseen_in(fill))


def visible(text: str) -> str:
    """`text` made safe for a terminal: U+FFFD replaces invisible characters."""
    unseen = unseen_in(text)
    return text.translate(dict.fromkeys(map(ord, unseen), "\ufffd")) if unseen else text


def unseen_in(text: str) -> set[str]:
    """The invisible characters in `text`, except those inside an emoji."""
    if not _SUSPECT.search(text):
        return set()
    return {each for each in _SUSPECT.findall(_EMOJI.sub("", text)) if _is_unseen(each)}


def _is_unseen(character: str) -> bool:
    code = ord(character)
    is_no_character = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return is_no_character or unicodedata.category(character) in _UNSEEN_CATEGORIES or bool(_UNSEEN.match(character))

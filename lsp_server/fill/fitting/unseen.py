"""Invisible and misleading characters. A fill may contain only those its document already uses."""

import re

from lsp_server.syntax.lines import is_unseen

_SUSPECT = re.compile(r"[^\t\n\r -~]")
_LOOK = "(?:\ufe0f?[\U0001f3fb-\U0001f3ff]?)"
_EMOJI = re.compile(
    "[#*0-9]\ufe0f\u20e3|"
    f"[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]{_LOOK}"
    f"(?:\u200d[\u2190-\u27ff\u2900-\u2bff\U0001f000-\U0001faff]{_LOOK}){{0,3}}"
)
"""One emoji: the joiners and selectors in it are part of the visible glyph. None joins more than four."""
_BYTE_ORDER_MARK = "\ufeff"


def brings_unseen(fill: str, text: str, typed: str = "") -> bool:
    """Whether `fill` has an invisible character that neither `text` (but for a byte order mark) nor `typed` has."""
    return any(each not in typed and each not in text.removeprefix(_BYTE_ORDER_MARK) for each in unseen_in(fill))


def visible(text: str) -> str:
    """`text` made safe for a terminal: U+FFFD replaces invisible characters."""
    unseen = unseen_in(text)
    return text.translate(dict.fromkeys(map(ord, unseen), "\ufffd")) if unseen else text


def unseen_in(text: str) -> set[str]:
    """The invisible characters in `text`, except those inside an emoji."""
    if not _SUSPECT.search(text):
        return set()
    return {each for each in _SUSPECT.findall(_EMOJI.sub("", text)) if is_unseen(each)}

"""The text too far behind a hole for the canvas, shown before the file's own prefix.

Text read before the prefix must not change while the user types, or each keystroke would lose the encoded prefix. So
this text begins at a stepped distance from the end of the file: neither typing before it nor moving the cursor a few
lines shifts it.
"""

from inference.engine.canvas import cutting
from inference.engine.canvas.vocabulary import Vocabulary

_CHARACTERS_PER_TOKEN = 4
_STEPS = 8
"""It begins at a multiple of this part of its largest size, before the end of the file. Finer steps show more of the
text right behind the canvas; each step that the cursor crosses makes the prefix be read again.
"""


def behind(vocabulary: Vocabulary, text: str, near_tokens: int, most_tokens: int) -> str:
    """Whole lines of `text`, which follows the last hole: at most `most_tokens`, skipping the first `near_tokens`."""
    step = max(1, most_tokens * _CHARACTERS_PER_TOKEN // _STEPS)
    left = (len(text) - _characters(vocabulary, text, near_tokens)) // step * step
    start = text.find("\n", len(text) - left) + 1
    return cut(vocabulary, text[start:], most_tokens) if left and start else ""


def cut(vocabulary: Vocabulary, text: str, most_tokens: int) -> str:
    """As many whole lines of a text as fit into `most_tokens`."""
    shown = _whole_lines(text, most_tokens * _CHARACTERS_PER_TOKEN)
    ids = vocabulary.encode(shown)
    return shown if len(ids) <= most_tokens else _whole_lines(shown, len(vocabulary.decode(ids[:most_tokens])))


def _characters(vocabulary: Vocabulary, text: str, tokens: int) -> int:
    """The number of characters in its first tokens."""
    ids = vocabulary.encode(text[: tokens * cutting.CHARACTERS_PER_TOKEN])
    return len(vocabulary.decode(ids[:tokens]))


def _whole_lines(text: str, size: int) -> str:
    """As many whole lines as fit into `size` characters."""
    return text if len(text) <= size else text[: text.rfind("\n", 0, size) + 1]

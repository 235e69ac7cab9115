"""The text of a file that stands too far behind a hole for the canvas, to be shown before the file's own prefix.

What is read before the prefix must not change while somebody types, or the encoded prefix would be lost at each
keystroke. So this text begins at a place that is counted from the end of the file, in steps: neither what is typed
before it moves it, nor does a cursor that moves a few lines.
"""

from inference.engine.canvas import cutting
from inference.engine.canvas.vocabulary import Vocabulary

_CHARACTERS_PER_TOKEN = 4
_STEPS = 8
"""It begins at a multiple of this part of its largest size, before the end of the file. Finer steps show more of what
stands right behind the canvas; at each of them that the cursor passes, the prefix has to be read again."""


def behind(vocabulary: Vocabulary, text: str, near_tokens: int, most_tokens: int) -> str:
    """Whole lines of `text`, which follows the last hole: none of its first `near_tokens`, at most `most_tokens`."""
    step = max(1, most_tokens * _CHARACTERS_PER_TOKEN // _STEPS)
    left = (len(text) - _characters(vocabulary, text, near_tokens)) // step * step
    start = text.find("\n", len(text) - left) + 1
    return cut(vocabulary, text[start:], most_tokens) if left and start else ""


def cut(vocabulary: Vocabulary, text: str, most_tokens: int) -> str:
    """As many whole lines of a text as `most_tokens` have room for."""
    shown = _whole_lines(text, most_tokens * _CHARACTERS_PER_TOKEN)
    ids = vocabulary.encode(shown)
    return shown if len(ids) <= most_tokens else _whole_lines(shown, len(vocabulary.decode(ids[:most_tokens])))


def _characters(vocabulary: Vocabulary, text: str, tokens: int) -> int:
    """How many characters its first tokens stand for."""
    ids = vocabulary.encode(text[: tokens * cutting.CHARACTERS_PER_TOKEN])
    return len(vocabulary.decode(ids[:tokens]))


def _whole_lines(text: str, size: int) -> str:
    """As many whole lines as `size` characters have room for."""
    return text if len(text) <= size else text[: text.rfind("\n", 0, size) + 1]

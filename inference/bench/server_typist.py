"""Types into a file of many functions, one key at a time, and times each one."""

import time
from collections.abc import Callable

from inference.bench.server_editor import ScriptedEditor, ServerError

_FUNCTION = '''
def name_{0}(first, second):
    """Add what is {0}."""
    total = first + {0}
    for value in second:
        if value > total:
            total += value
    return total

'''
_HEIGHT = _FUNCTION.count("\n")
_LINE_IN_FUNCTION = 4
_TYPED_BEFORE = "    chosen = "
_LONGEST_LINE = 60


def document(lines: int) -> str:
    """Python code of about this many lines."""
    return "".join(_FUNCTION.format(number) for number in range(max(lines // _HEIGHT, 2)))


class Typist:
    """Types in one function after the other, each time on a new line. A section's method returns one keystroke's ms."""

    def __init__(self, editor: ScriptedEditor, line: int) -> None:
        self._editor = editor
        self._line = line // _HEIGHT * _HEIGHT + _LINE_IN_FUNCTION
        self._column, self._shown, self._section = 0, "", ""

    def sections(self) -> dict[str, Callable[[], float]]:
        """What is measured, by name."""
        return {
            "no_op": self.no_op,
            "remembered": self.remembered,
            "asked": self.asked,
            "asked_in_open_bracket": self.asked_in_open_bracket,
            "asked_below_an_error": self.asked_below_an_error,
        }

    def no_op(self) -> float:
        """A no-op request."""
        began = time.perf_counter()
        self._editor.no_op()
        return (time.perf_counter() - began) * 1000

    def remembered(self) -> float:
        """Types the next character of the suggestion; begins a new line once all of it is typed."""
        if self._section != "remembered" or len(self._shown) < 2:
            self._begin_line("remembered", _TYPED_BEFORE)
        wanted = self._shown[1:]
        ms = self._key(self._shown[0])
        if self._shown != wanted:
            raise ServerError(f"of a suggestion {wanted!r} should have been left, and was {self._shown!r}")
        return ms

    def asked(self) -> float:
        """Types a character that no suggestion continues with: the server must ask the worker."""
        return self._unexpected("asked", _TYPED_BEFORE)

    def asked_in_open_bracket(self) -> float:
        """The same inside an open bracket, where the text is not valid Python."""
        return self._unexpected("in_open_bracket", _TYPED_BEFORE + "[")

    def asked_below_an_error(self) -> float:
        """The same below an unfinished line."""
        if self._section != "below_an_error":
            self._editor.type(_LINE_IN_FUNCTION, 0, f"{_TYPED_BEFORE}(\n")
            self._line += 1
        return self._unexpected("below_an_error", _TYPED_BEFORE)

    def _unexpected(self, section: str, before: str) -> float:
        if self._section != section or self._column > _LONGEST_LINE:
            self._begin_line(section, before)
        ms = self._key("z")
        if not self._shown:
            raise ServerError("the server had nothing to show")
        return ms

    def _begin_line(self, section: str, text: str) -> None:
        """Begins in the next function, away from rejected suggestions, and leaves the old line as valid Python."""
        rest = {"remembered": self._shown, "in_open_bracket": "]"}.get(self._section, "")
        if rest:
            self._editor.type(self._line, self._column, rest)
        self._line += _HEIGHT + 1
        self._editor.type(self._line, 0, f"{text}\n")
        self._section, self._column = section, len(text)
        self._shown = self._ask()

    def _key(self, character: str) -> float:
        began = time.perf_counter()
        self._editor.type(self._line, self._column, character)
        self._column += 1
        self._shown = self._ask()
        return (time.perf_counter() - began) * 1000

    def _ask(self) -> str:
        """The text shown after the cursor: a suggestion also includes the text before it from its start column on."""
        item = self._editor.complete(self._line, self._column)
        return item.text[self._column - item.start :] if item else ""

"""One suggestion, and the part of it still to be typed. Its range keeps what is typed in it, so the result stays."""

from dataclasses import dataclass, replace

from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.fill.feature import Taken
from lsp_server.syntax.languages import CLOSERS
from lsp_server.syntax.lines import is_one_line, line_start

MAX_CHANGED_ELSEWHERE_CHARACTERS = 300
"""After more changes than this outside the range, its result belongs to a different text."""
MAX_TAKEN_BACK_CHARACTERS = 64
"""Deleting more than this in front of the range means the user is doing something else."""
MAX_LEAD_CHARACTERS = 1000
"""Compare only the end of a longer statement."""
_QUOTES = "\"'`"


@dataclass(frozen=True)
class Anchor:
    """`[start, end)` of the current text, originally `original` with the cursor `cursor` characters into it.

    Its result depends on `lead`, the text in front of it from the line where its statement begins.
    """

    start: int
    end: int
    original: str
    cursor: int
    lead: str = ""
    changed_elsewhere: int = 0
    """The number of characters typed or deleted outside the range since then."""

    @classmethod
    def of(cls, text: str, start: int, end: int, cursor: int, statement: int | None = None) -> "Anchor":
        """`[start, end)` of `text`, in a statement that begins at `statement`, by default at the start of the line."""
        first = line_start(text, min(start, start if statement is None else statement))
        return cls(start, end, text[start:end], cursor - start, text[max(first, start - MAX_LEAD_CHARACTERS) : start])

    @property
    def head(self) -> str:
        """The original text before the cursor."""
        return self.original[: self.cursor]

    @property
    def tail(self) -> str:
        """The original text behind the cursor."""
        return self.original[self.cursor :]

    def is_fresh(self, text: str) -> bool:
        """Whether the text of its statement in front of it is the same in `text`."""
        first = self.start - len(self.lead)
        if not text.startswith(self.lead, first):
            return False
        return len(self.lead) == MAX_LEAD_CHARACTERS or first == line_start(text, first)

    def contains(self, change: Change) -> bool:
        """Whether `change` falls inside the range."""
        return self.start <= change.start and change.end <= self.end

    def after(self, change: Change) -> "tuple[Anchor, str] | None":
        """The range after a change, and the text deleted in front of it, now part of it; None if the range is lost."""
        if self.contains(change):
            return self._at(self.start, self.end + change.shift, self.changed_elsewhere), ""
        if change.start < self.start <= change.end <= self.end and change.removed:
            return self._taken_back(change)
        return self._moved(change)

    def _taken_back(self, change: Change) -> "tuple[Anchor, str] | None":
        taken = change.removed[: self.start - change.start]
        if len(taken) > MAX_TAKEN_BACK_CHARACTERS or "\n" in taken or "\r" in taken or not self.lead.endswith(taken):
            return None
        grown = replace(self, start=change.start, end=self.end + change.shift, lead=self.lead[: -len(taken)])
        return replace(grown, original=taken + self.original, cursor=self.cursor + len(taken)), taken

    def _moved(self, change: Change) -> "tuple[Anchor, str] | None":
        changed_elsewhere = self.changed_elsewhere + len(change.removed) + len(change.added)
        if changed_elsewhere > MAX_CHANGED_ELSEWHERE_CHARACTERS:
            return None
        if change.end <= self.start:
            shift = change.shift
        elif change.start > self.end:
            shift = 0
        else:  # the text just behind the range, or on both sides of it, has changed
            return None
        return self._at(self.start + shift, self.end + shift, changed_elsewhere), ""

    def _at(self, start: int, end: int, changed_elsewhere: int) -> "Anchor":
        return Anchor(start, end, self.original, self.cursor, self.lead, changed_elsewhere)


def computation_of(suggestion_id: str) -> str:
    """The id of the computation that produced a suggestion."""
    return suggestion_id.rpartition(".")[0]


@dataclass(frozen=True)
class Cursor:
    """The cursor, and the item selected in the editor's list of completions: a range and its new text."""

    offset: int
    selected: tuple[int, int, str] | None = None


@dataclass(frozen=True)
class GhostText:
    """A suggestion as an editor can show it: `text` replaces `[start, end)`, which is on the cursor's line."""

    start: int
    end: int
    text: str

    def at_cursor(self, text: str, cursor: int) -> "GhostText":
        """The same with an empty range at the cursor in `text`, if it replaces nothing behind the cursor."""
        typed = text[self.start : cursor]
        behind = text[cursor : self.end]
        left = len(self.text) - len(behind)
        if not (len(typed) < left and self.text.startswith(typed) and self.text.endswith(behind)):
            return self
        return GhostText(cursor, cursor, self.text[len(typed) : left])


@dataclass(frozen=True)
class Suggestion:
    """`text` for the range `anchor`, which was the hole `hole`. `invoked`: the user asked for it."""

    id: str
    anchor: Anchor
    text: str
    hole: Span
    confidence: float = 1.0
    invoked: bool = False
    shown_from: int | None = None
    """The user last saw `text` from this character on; None: never."""
    is_refined: bool = False
    """Whether the partner wrote it to replace another one."""

    @property
    def computation(self) -> str:
        """The id of the computation that produced it, and possibly others."""
        return computation_of(self.id)

    def taken(self, length: int) -> Taken:
        """What is accepted with the first `length` characters of it, which are now in the text."""
        text = self.text[:length]
        return Taken(self.computation, self.anchor.start, text, len(text) == len(self.text), self.is_refined)

    def after(self, change: Change) -> "Suggestion | None":
        """The same suggestion after a change of the text; None if that made it useless."""
        found = self.anchor.after(change)
        if found is None:
            return None
        anchor, taken_back = found
        shown_from = None if self.shown_from is None else self.shown_from + len(taken_back)
        text = taken_back + self.text  # built by hand: each keystroke builds many, and `replace` is slow
        return Suggestion(self.id, anchor, text, self.hole, self.confidence, self.invoked, shown_from, self.is_refined)

    def applied(self, text: str) -> str:
        """The whole text with the suggestion in it."""
        return text[: self.anchor.start] + self.text + text[self.anchor.end :]

    def at(self, text: str, cursor: Cursor) -> GhostText | None:
        """What to show at the cursor in `text`; None if it is stale or does not continue the text there."""
        anchor = self.anchor
        offset = cursor.offset
        selected = cursor.selected
        if (selected is None and not anchor.start <= offset <= anchor.end) or not anchor.is_fresh(text):
            return None
        if selected is not None:
            return self._beyond(text, *selected)
        typed = text[anchor.start : offset]
        behind = text[offset : anchor.end]
        if (typed, behind) == (anchor.head, anchor.tail):  # as when it was made, whatever the text
            return GhostText(anchor.start, anchor.end, self.text) if is_one_line(typed + behind) else None
        if not self.continues(typed):
            return None
        done = max(line_start(text, offset) - anchor.start, 0)
        if self._fits_behind(typed, behind):
            return GhostText(anchor.start + done, anchor.end, self.text[done:])
        left = len(self.text) - len(behind)
        is_line_end = behind.isspace() and not is_one_line(behind)  # Enter between two braces
        if is_line_end and left > len(typed) and self.text.endswith(behind):
            return GhostText(anchor.start + done, offset, self.text[done:left])
        return None

    def continues(self, typed: str) -> bool:
        """Whether the suggestion begins with `typed` and has more to add."""
        return len(typed) < len(self.text) and self.text.startswith(typed)

    def typed(self, text: str) -> str:
        """The text typed in its range, without what an editor closed by itself: the longest that fits."""
        anchor = self.anchor
        standing = text[anchor.start : anchor.end].removesuffix(anchor.tail)
        for end in range(len(standing), anchor.cursor, -1):
            typed = standing[:end]
            behind = standing[end:]
            if self.continues(typed) and _closers_of(typed[anchor.cursor :]).startswith(behind):  # by the editor
                return typed
        return standing

    def _fits_behind(self, typed: str, behind: str) -> bool:
        """Whether `behind`, the text behind the cursor, is the original text plus what an editor closed."""
        anchor = self.anchor
        if not is_one_line(behind):
            return False
        if len(typed) < anchor.cursor:  # the cursor has moved back, or text before it was deleted
            return behind == anchor.tail
        if not behind.endswith(anchor.tail):
            return False
        return _closers_of(typed[anchor.cursor :]).startswith(behind[: len(behind) - len(anchor.tail)])

    def _beyond(self, text: str, start: int, end: int, selected: str) -> GhostText | None:
        """The extension of the selected item, in the item's range."""
        anchor = self.anchor
        if not anchor.start <= start <= end <= anchor.end or not is_one_line(text, anchor.start, anchor.end):
            return None
        typed = text[anchor.start : start] + selected
        behind = text[end : anchor.end]
        if not self.continues(typed) or not anchor.tail.endswith(behind):
            return None
        return GhostText(start, anchor.end, self.text[start - anchor.start :])


def _closers_of(typed: str) -> str:
    """The brackets and quotes that close what `typed` opens, innermost first."""
    stack: list[str] = []
    for character in typed:
        if stack and character == stack[-1]:
            stack.pop()
        elif stack and stack[-1] in _QUOTES:  # inside a string
            continue
        elif character in CLOSERS:
            stack.append(CLOSERS[character])
        elif character in _QUOTES:
            stack.append(character)
    return "".join(reversed(stack))

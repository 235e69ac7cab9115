"""Texts with a marked cursor, and a user who types into them and sees suggestions."""

from dataclasses import dataclass

from inference.deadline import Deadline
from inference.messages import HoleKind
from lsp_server.documents.change import TextChange
from lsp_server.fill.pipeline import FillBudget
from lsp_server.holes import HoleSpan
from lsp_server.inline.anchor import Anchor, Cursor
from lsp_server.inline.history import SuggestionHistory
from lsp_server.inline.request import InlineRequest
from lsp_server.inline.suggestion import Suggestion
from tests.lsp_server.fixtures import with_cursor

MANY = FillBudget(candidates=8, deadline=Deadline(1000), max_steps=None)


def suggestion(
    marked: str, text: str, name: str = "s", *, replaces: tuple[str, str] = ("", ""), **more: object
) -> Suggestion:
    """`text` instead of what stands right before and right behind the cursor (`replaces`)."""
    plain, cursor = with_cursor(marked)
    before, behind = replaces
    assert plain[:cursor].endswith(before)
    assert plain.startswith(behind, cursor)
    start, end = cursor - len(before), cursor + len(behind)
    anchor = Anchor.from_text(plain, start, end, cursor)
    return Suggestion(name, anchor, text, HoleSpan(start, end, HoleKind.LINE), **more)  # type: ignore[arg-type]


@dataclass
class TypingUser:
    """An editor's cursor, and the suggestion history that is told of every change of the text."""

    cursor: int
    history: SuggestionHistory

    @property
    def text(self) -> str:
        return self.history.text

    @classmethod
    def at(cls, marked: str, *suggestions: Suggestion) -> "TypingUser":
        text, cursor = with_cursor(marked)
        history = SuggestionHistory(text)
        history.add(suggestions)
        return cls(cursor, history)

    def change(self, start: int, end: int, added: str) -> None:
        change = TextChange(start, self.text[start:end], added)
        self.cursor = change.move_offset(self.cursor)
        self.history.changed([change], change.apply_to(self.text))

    def type(self, text: str, closed: str = "") -> None:
        """Insert text at the cursor; the editor adds `closed` behind it by itself."""
        self.change(self.cursor, self.cursor, text + closed)
        self.cursor -= len(closed)

    def delete(self, count: int = 1) -> None:
        self.change(self.cursor - count, self.cursor, "")

    def play(self, *steps: str | int | tuple[int, int, str] | list[str]) -> None:
        """A string is typed: `⌫` deletes, and the editor closes by itself what follows `¦`. A number moves the cursor.
        Three values are another change, and a list is what must be shown then.
        """
        for step in steps:
            if isinstance(step, list):
                assert self.shown() == step
            elif isinstance(step, tuple):
                self.change(*step)
            elif isinstance(step, int):
                self.cursor += step
            elif step.strip("⌫"):
                self.type(*step.split("¦"))
            else:
                self.delete(len(step))

    def shown(self, *, invoked: bool = False) -> list[str]:
        """What each suggestion at the cursor would make of the text, with what is left of it marked: `a[bc]`."""
        found = self.history.suggestions_for(InlineRequest(Cursor(self.cursor), MANY, "???", invoked=invoked))
        self.history.mark_shown(found, invoked=invoked)
        before, rests = self.text[: self.cursor], [(it.text[self.cursor - it.start :], it.end) for _, it in found]
        return [f"{before}[{rest}]{self.text[end:]}" for rest, end in rests]

    def at_once(self, texts: list[str], before: str = "") -> None:
        """Make what is in front of the cursor, now `before`, each of `texts` in turn, in one message."""
        start, now, changes = self.cursor - len(before), self.text, list[TextChange]()
        for text in texts:
            changes.append(TextChange(start, now[start : self.cursor], text))
            now = changes[-1].apply_to(now)
            self.cursor = start + len(text)
        self.history.changed(changes, now)

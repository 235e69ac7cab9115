"""Suggestions, the part of each still to be typed, the known ones of a document, and the computation of new ones.

A suggestion's range keeps what is typed in it, so the result stays.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

from inference.messages import Draft
from lsp_server import carve
from lsp_server.carve import Span
from lsp_server.documents.change import TextChange, minimal_change
from lsp_server.documents.document import Snapshot
from lsp_server.fill.drafts import DraftReader, HoleDraft
from lsp_server.fill.feature import Asked, Taken
from lsp_server.fill.pipeline import Budget, FillResult
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
        return self.original[: self.cursor]

    @property
    def tail(self) -> str:
        return self.original[self.cursor :]

    def is_fresh(self, text: str) -> bool:
        """Whether the text of its statement in front of it is the same in `text`."""
        first = self.start - len(self.lead)
        if not text.startswith(self.lead, first):
            return False
        return len(self.lead) == MAX_LEAD_CHARACTERS or first == line_start(text, first)

    def contains(self, change: TextChange) -> bool:
        return self.start <= change.start and change.end <= self.end

    def after(self, change: TextChange) -> "Anchor | None":
        """The range after a change, with the text deleted right in front of it as part of it; None if it is lost."""
        if self.contains(change):
            return self._at(self.start, self.end + change.shift, self.changed_elsewhere)
        if change.start < self.start <= change.end <= self.end and change.removed:
            return self._taken_back(change)
        changed_elsewhere = self.changed_elsewhere + len(change.removed) + len(change.added)
        if changed_elsewhere > MAX_CHANGED_ELSEWHERE_CHARACTERS:
            return None
        if change.end <= self.start:
            return self._at(self.start + change.shift, self.end + change.shift, changed_elsewhere)
        return self._at(self.start, self.end, changed_elsewhere) if change.start > self.end else None

    def _taken_back(self, change: TextChange) -> "Anchor | None":
        taken = change.removed[: self.start - change.start]
        if len(taken) > MAX_TAKEN_BACK_CHARACTERS or not is_one_line(taken) or not self.lead.endswith(taken):
            return None
        grown = replace(self, start=change.start, end=self.end + change.shift, lead=self.lead[: -len(taken)])
        return replace(grown, original=taken + self.original, cursor=self.cursor + len(taken))

    def _at(self, start: int, end: int, changed_elsewhere: int) -> "Anchor":
        return Anchor(start, end, self.original, self.cursor, self.lead, changed_elsewhere)


@dataclass(frozen=True)
class Cursor:
    """The cursor, and the item selected in the editor's list of completions: a range and its new text."""

    offset: int
    selected: tuple[int, int, str] | None = None

    def after(self, change: TextChange) -> "Cursor":
        return Cursor(change.move(self.offset))


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
        return self.id.rpartition(".")[0]

    def taken(self, length: int) -> Taken:
        """What is accepted with the first `length` characters of it, which are now in the text."""
        return Taken(self.computation, length >= len(self.text), self.is_refined)

    def after(self, change: TextChange) -> "Suggestion | None":
        """The same suggestion after a change of the text; None if that made it useless."""
        anchor = self.anchor.after(change)
        if anchor is None:
            return None
        taken_back = anchor.original[: len(anchor.original) - len(self.anchor.original)]
        shown_from = None if self.shown_from is None else self.shown_from + len(taken_back)
        text = taken_back + self.text  # built by hand: each keystroke builds many, and `replace` is slow
        return Suggestion(self.id, anchor, text, self.hole, self.confidence, self.invoked, shown_from, self.is_refined)

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


KEPT = 24
AT_ONCE_CHARACTERS = 3
"""A shorter change may be typing: editors batch keystrokes."""
_KEPT_TEXTS = 100
"""The number of earlier texts to recognise."""
KEPT_REJECTED = 16
SLIP_CHARACTERS = 2
"""This many wrong characters may be a typing slip; more are intended."""
_NEAR_CHARACTERS = 100
"""How far before the end of an insertion to look for the cursor."""


class SuggestionHistory:
    """The suggestions to show again, newest first, and the rejected ones, which reappear only on request.

    A rejected one is reported by the editor, or was seen and typed over. One that merely vanished is not rejected.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.after_undo = False
        """Whether the user has just undone more than a character or white space."""
        self._suggestions: list[Suggestion] = []
        self._rejected: list[Suggestion] = []
        self._earlier = deque([hash(text)], maxlen=_KEPT_TEXTS)

    def changed(self, changes: Sequence[TextChange], text: str) -> list[Suggestion]:
        """`changes` came together, one after the other, and led to `text`. Returns the suggestions typed over."""
        self.text = text
        for change in changes:
            self._rejected = _moved(self._rejected, change)
            self._suggestions = _moved(self._suggestions, change)
        shown = [each for each in self._suggestions if each.shown_from is not None]
        placed = _placed(changes, text) if shown else []
        typed_over = [each for each in shown if any(is_typed_over(each, change, text) for change in placed)]
        for suggestion in typed_over:
            self.reject(suggestion.id)
        is_back = hash(text) in self._earlier and hash(text) != self._earlier[-1]  # if they cancel out, it was a slip
        parts = (part for change in changes for part in (change.removed, change.added))
        self.after_undo = is_back and any(len(part.strip()) > 1 for part in parts)
        self._earlier.append(hash(text))
        return typed_over

    def put_in(self, changes: Sequence[TextChange]) -> Suggestion | None:
        """The newest shown suggestion that `changes` inserted in one go, for editors that report no acceptance."""
        if all(len(minimal_change(each.removed, each.added).added) < AT_ONCE_CHARACTERS for each in changes):
            return None
        shown = (each for each in self._suggestions if each.shown_from is not None)
        return next((each for each in shown if self.text[each.anchor.start : each.anchor.end] == each.text), None)

    def is_shown(self, computation: str) -> bool:
        """Whether any result of a computation was shown, and neither rejected nor lost since."""
        return any(each.computation == computation and each.shown_from is not None for each in self._suggestions)

    def add(self, suggestions: Sequence[Suggestion]) -> None:
        self._suggestions = [*suggestions, *self._suggestions][:KEPT]

    def get(self, suggestion_id: str) -> Suggestion | None:
        """The suggestion with this id, in its current place; None if unknown."""
        return next((each for each in self._suggestions if each.id == suggestion_id), None)

    def refine(self, asked: Suggestion, new_id: str, text: str, confidence: float) -> bool:
        """Shows `text` ahead of `asked`, the suggestion when it was requested; False if either lost its place."""
        found = self.get(asked.id)
        if found is None or not found.anchor.is_fresh(self.text):
            return False
        text = found.text.removesuffix(asked.text) + text
        refined = replace(
            found, id=new_id, text=text, confidence=confidence, invoked=True, shown_from=None, is_refined=True
        )
        if not all(each.continues(each.typed(self.text)) for each in (refined, found)):
            return False
        self.add([refined])
        return True

    def reject(self, suggestion_id: str) -> None:
        if suggestion := self.get(suggestion_id):
            self._rejected = [suggestion, *self._rejected][:KEPT_REJECTED]
            self._suggestions = [each for each in self._suggestions if each is not suggestion]

    def find(self, request: "InlineRequest") -> "Found":
        """The distinct suggestions for the request's cursor, newest first, at most as many as it wants.

        An automatic request skips rejected ones, and those below its floor unless the user has already seen them.
        """
        cursor = request.cursor
        found: dict[GhostText, Suggestion] = {}
        for suggestion in self._suggestions:
            shown = suggestion.at(self.text, cursor)
            if shown is not None and (request.invoked or not self._is_unwanted(suggestion, request.floor)):
                if request.wants_empty and cursor.selected is None:
                    shown = shown.at_cursor(self.text, cursor.offset)
                found.setdefault(shown, suggestion)
        return [(suggestion, shown) for shown, suggestion in found.items()][: request.budget.candidates]

    def show(self, found: "Found", *, invoked: bool) -> None:
        """Marks these as shown; an explicitly requested one is no longer rejected."""
        starts = {suggestion.id: shown.start - suggestion.anchor.start for suggestion, shown in found}
        self._suggestions = [
            replace(each, shown_from=starts[each.id]) if each.id in starts else each for each in self._suggestions
        ]
        for suggestion, _ in found if invoked else ():
            self._rejected = [other for other in self._rejected if not _same(suggestion, other, self.text)]

    def _is_unwanted(self, suggestion: Suggestion, floor: float) -> bool:
        unsure = suggestion.confidence < floor and suggestion.shown_from is None and not suggestion.is_refined
        return unsure or any(_same(suggestion, other, self.text) for other in self._rejected)


def _placed(changes: Sequence[TextChange], text: str) -> list[TextChange]:
    """The changes whose added text still stands in `text`, to which they led, each at its place there."""
    placed: list[TextChange] = []
    for change in changes:
        placed = [replace(each, start=change.move(each.start)) for each in placed] + [change]
    return [each for each in placed if text.startswith(each.added, each.start)]


def _moved(suggestions: Sequence[Suggestion], change: TextChange) -> list[Suggestion]:
    moved = (suggestion.after(change) for suggestion in suggestions)
    return [suggestion for suggestion in moved if suggestion is not None]


def _same(one: Suggestion, other: Suggestion, text: str) -> bool:
    first, last = sorted((one.anchor, other.anchor), key=lambda anchor: anchor.start)
    if first.end < last.start:
        return False
    start = first.start
    end = max(first.end, last.end)
    return _within(one, text, start, end) == _within(other, text, start, end)


def _within(suggestion: Suggestion, text: str, start: int, end: int) -> str:
    """The result for `[start, end)` of `text`."""
    return text[start : suggestion.anchor.start] + suggestion.text + text[suggestion.anchor.end : end]


def is_typed_over(suggestion: Suggestion, change: TextChange, text: str) -> bool:
    """Whether `change`, which led to `text`, clearly shows that the user wants something other than `suggestion`."""
    anchor = suggestion.anchor
    end = change.start + len(change.added)
    if not change.added or not anchor.start <= change.start <= end <= anchor.end or not anchor.is_fresh(text):
        return False
    typed = text[anchor.start : end]
    same = minimal_change(suggestion.text, typed).start
    if same == len(suggestion.text) or len(typed) - same <= SLIP_CHARACTERS:
        return False
    near = range(max(change.start, end - _NEAR_CHARACTERS), end + 1)
    return not any(suggestion.at(text, Cursor(offset)) for offset in near)  # the editor may have closed a bracket


Found = Sequence[tuple[Suggestion, GhostText]]
"""Suggestions, and how to show each."""
OnDraft = Callable[[Draft, Callable[[str], list[HoleDraft]]], None]
"""Gets a draft, and what reads its hole as a text would show it, or the rest of a partly typed one; may be empty."""
_numbers = count(1)
_LINE_END = re.compile(r"\r\n|[\r\n]")
_PAIRS = ("()", "[]", "{}", '""', "''", "``")
"""Pairs that an editor inserts together when it closes brackets and quotes: the cursor ends up between them."""


@dataclass(eq=False)
class InlineRequest:
    """A request at a cursor, which follows the text. `floor` (least confidence) and `pause_s` apply to automatic ones.

    `wants_empty`: ranges are empty where nothing behind the cursor is replaced.
    """

    cursor: Cursor
    budget: Budget
    marker: str
    invoked: bool = False
    floor: float = 0.0
    pause_s: float = 0.0
    on_draft: OnDraft | None = None
    wants_empty: bool = False
    reply: Callable[[Found], Any] = list
    """Makes the answer of the suggestions found, best first, for the text at that moment."""
    result: "asyncio.Future[Any]" = field(init=False, repr=False)
    """The answer, once the request waits for one; may be cancelled."""

    @property
    def is_open(self) -> bool:
        return not self.result.done()

    def answer(self, found: Found = ()) -> None:
        if self.is_open:
            self.result.set_result(self.reply(found))


def is_a_choice(found: Found) -> bool:
    """Whether the user asked explicitly and has several to choose from, such as a draft and its improvement."""
    is_refined = bool(found) and found[0][0].is_refined
    return is_refined or (len(found) > 1 and all(suggestion.invoked for suggestion, _ in found))


def hole_for(snapshot: Snapshot, cursor: Cursor, marker: str) -> carve.Span | None:
    """The hole at a cursor if it is on one line, since an editor can show a fill nowhere else.

    With an item selected in the editor's list, the fill extends that item and replaces the same range.
    """
    hole = carve.hole_at_cursor(snapshot, cursor.offset, marker)
    if hole is None or snapshot.lines.line_of(hole.start) != snapshot.lines.line_of(hole.end):
        return None
    if cursor.selected is None:
        return hole
    start, end, text = cursor.selected
    if not start <= cursor.offset <= end:
        return None
    return replace(hole, start=start, end=max(hole.end, end), starts_with=text)


@dataclass(eq=False)
class Computation:
    """The fill of `hole` of `snapshot` for the request that began it, and what is typed meanwhile."""

    snapshot: Snapshot
    hole: carve.Span
    request: InlineRequest
    is_prefetch: bool = False
    """Whether it started ahead of any request."""
    id: str = field(default_factory=lambda: f"inline-{next(_numbers)}")
    anchor: Anchor = field(init=False)
    """The hole's place in the current text."""
    typed: str = field(init=False)
    """The text in it before the cursor."""
    selected: tuple[int, int, str] | None = field(init=False)
    sent_at_s: float | None = None
    """When the worker was asked, on the event loop's clock; None: not yet."""
    waiting: list[InlineRequest] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None
    grace: asyncio.TimerHandle | None = None
    """Ends it, unless another request takes it over first."""

    def __post_init__(self) -> None:
        hole = self.hole
        statement = carve.statement_start(self.snapshot, hole.start)
        self.anchor = Anchor.of(self.snapshot.text, hole.start, hole.end, self.request.cursor.offset, statement)
        self.typed = self.anchor.head
        self.selected = self.request.cursor.selected

    @cached_property
    def _drafts(self) -> DraftReader:
        return DraftReader(self.snapshot, [self.hole])

    @property
    def is_wanted(self) -> bool:
        """Whether a request still waits for it."""
        return any(request.is_open for request in self.waiting)

    def follow(self, change: TextChange) -> bool:
        """Follows a change of the text. False: the result has become useless."""
        anchor = self.anchor.after(change)
        inside = self.anchor.contains(change)
        if anchor is None or anchor.original != self.anchor.original or (inside and not self._can_pin(change)):
            return False
        self.anchor = anchor
        self.typed += change.added if inside else ""
        return True

    @property
    def is_amended(self) -> bool:
        return self.typed != self.anchor.head

    def amendment(self) -> str | None:
        """The part of `typed` to send to the worker; None if the fill will begin with it anyway."""
        return None if self.hole.starts_with.startswith(self.typed) else self.typed

    def answers(self, text: str, request: InlineRequest) -> bool:
        if request.invoked and not self.request.invoked:
            return False
        cursor = request.cursor
        if cursor.selected != self.selected or (cursor.selected and self.is_amended):
            return False
        end = self.anchor.start + len(self.typed)
        return cursor.offset == end and text[self.anchor.start : end] == self.typed

    def suggestions(self, filled: FillResult) -> list[Suggestion]:
        """The answers as suggestions for the current text, best first."""
        invoked = self.request.invoked
        return [
            Suggestion(f"{self.id}.{number}", self.anchor, each.texts[0], self.hole, each.confidence, invoked)
            for number, each in enumerate(filled.candidates)
        ]

    def asked(self, shown: Suggestion) -> Asked | None:
        """What the model was just asked, if this is its answer; None if the user has typed into the hole since."""
        if self.sent_at_s is None or self.is_amended or shown.computation != self.id:
            return None
        took_ms = (asyncio.get_running_loop().time() - self.sent_at_s) * 1000
        return Asked(self.snapshot, [self.hole], [shown.text], self.request.budget, self.request.marker, took_ms)

    def show(self, draft: Draft) -> None:
        for request in self.waiting:
            if request.on_draft is not None and request.is_open:
                request.on_draft(draft, partial(self.drafted, draft, request.cursor.offset))

    def drafted(self, draft: Draft, cursor: int, text: str) -> list[HoleDraft]:
        """The hole of `draft`, or the rest of a partly typed one, as `text` would show it at `cursor`; may be empty."""
        found = []
        for hole in self._drafts.read(draft):
            shown = Suggestion("", self.anchor, hole.text, self.hole).at(text, Cursor(cursor))
            if shown is not None:
                parts = hole.part(shown.start - self.anchor.start, len(shown.text))
                found.append(HoleDraft(shown.start, shown.end, shown.text, *parts))
        return found

    def _can_pin(self, change: TextChange) -> bool:
        """Whether `change` appends to the typed text in a way the worker can pin."""
        hole = self.hole
        typed = self.typed + change.added
        if self.sent_at_s is None or change.removed or change.start != self.anchor.start + len(self.typed):
            return False
        lines = len(_LINE_END.findall(change.added))
        if change.added in _PAIRS or lines > 1 or (hole.single_line and lines):  # the cursor may be before its end
            return False
        return typed.startswith(hole.starts_with) or hole.starts_with.startswith(typed)

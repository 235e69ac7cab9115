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
    def from_text(cls, text: str, start: int, end: int, cursor: int, statement: int | None = None) -> "Anchor":
        """`[start, end)` of `text`, in a statement that begins at `statement`, by default at the start of the line."""
        first = line_start(text, min(start, start if statement is None else statement))
        return cls(start, end, text[start:end], cursor - start, text[max(first, start - MAX_LEAD_CHARACTERS) : start])

    @property
    def typed_prefix(self) -> str:
        return self.original[: self.cursor]

    @property
    def replaced_suffix(self) -> str:
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
            return self._moved(self.start, self.end + change.shift, self.changed_elsewhere)
        if change.start < self.start <= change.end <= self.end and change.removed:
            return self._extended_back(change)
        changed_elsewhere = self.changed_elsewhere + len(change.removed) + len(change.added)
        if changed_elsewhere > MAX_CHANGED_ELSEWHERE_CHARACTERS:
            return None
        if change.end <= self.start:
            return self._moved(self.start + change.shift, self.end + change.shift, changed_elsewhere)
        return self._moved(self.start, self.end, changed_elsewhere) if change.start > self.end else None

    def _extended_back(self, change: TextChange) -> "Anchor | None":
        deleted = change.removed[: self.start - change.start]
        if len(deleted) > MAX_TAKEN_BACK_CHARACTERS or not is_one_line(deleted) or not self.lead.endswith(deleted):
            return None
        grown = replace(self, start=change.start, end=self.end + change.shift, lead=self.lead[: -len(deleted)])
        return replace(grown, original=deleted + self.original, cursor=self.cursor + len(deleted))

    def _moved(self, start: int, end: int, changed_elsewhere: int) -> "Anchor":
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

    def with_empty_range(self, text: str, cursor: int) -> "GhostText":
        """The same with an empty range at the cursor in `text`, if it replaces nothing behind the cursor."""
        typed = text[self.start : cursor]
        suffix = text[cursor : self.end]
        end = len(self.text) - len(suffix)
        if not (len(typed) < end and self.text.startswith(typed) and self.text.endswith(suffix)):
            return self
        return GhostText(cursor, cursor, self.text[len(typed) : end])


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

    def accepted_event(self, length: int) -> Taken:
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

    def ghost_text(self, text: str, cursor: Cursor) -> GhostText | None:
        """What to show at the cursor in `text`; None if it is stale or does not continue the text there."""
        anchor = self.anchor
        offset = cursor.offset
        selected = cursor.selected
        if (selected is None and not anchor.start <= offset <= anchor.end) or not anchor.is_fresh(text):
            return None
        if selected is not None:
            return self._extending_selected(text, *selected)
        typed = text[anchor.start : offset]
        suffix = text[offset : anchor.end]
        if (typed, suffix) == (anchor.typed_prefix, anchor.replaced_suffix):  # as when it was made, whatever the text
            return GhostText(anchor.start, anchor.end, self.text) if is_one_line(typed + suffix) else None
        if not self.continues(typed):
            return None
        done = max(line_start(text, offset) - anchor.start, 0)
        if self._fits_suffix(typed, suffix):
            return GhostText(anchor.start + done, anchor.end, self.text[done:])
        end = len(self.text) - len(suffix)
        is_line_end = suffix.isspace() and not is_one_line(suffix)  # Enter between two braces
        if is_line_end and end > len(typed) and self.text.endswith(suffix):
            return GhostText(anchor.start + done, offset, self.text[done:end])
        return None

    def continues(self, typed: str) -> bool:
        """Whether the suggestion begins with `typed` and has more to add."""
        return len(typed) < len(self.text) and self.text.startswith(typed)

    def typed(self, text: str) -> str:
        """The text typed in its range, without what an editor closed by itself: the longest that fits."""
        anchor = self.anchor
        current = text[anchor.start : anchor.end].removesuffix(anchor.replaced_suffix)
        for end in range(len(current), anchor.cursor, -1):
            typed = current[:end]
            suffix = current[end:]
            if self.continues(typed) and _closers_of(typed[anchor.cursor :]).startswith(suffix):  # by the editor
                return typed
        return current

    def _fits_suffix(self, typed: str, suffix: str) -> bool:
        """Whether `behind`, the text behind the cursor, is the original text plus what an editor closed."""
        anchor = self.anchor
        if not is_one_line(suffix):
            return False
        if len(typed) < anchor.cursor:  # the cursor has moved back, or text before it was deleted
            return suffix == anchor.replaced_suffix
        if not suffix.endswith(anchor.replaced_suffix):
            return False
        return _closers_of(typed[anchor.cursor :]).startswith(suffix[: len(suffix) - len(anchor.replaced_suffix)])

    def _extending_selected(self, text: str, start: int, end: int, selected: str) -> GhostText | None:
        """The extension of the selected item, in the item's range."""
        anchor = self.anchor
        if not anchor.start <= start <= end <= anchor.end or not is_one_line(text, anchor.start, anchor.end):
            return None
        typed = text[anchor.start : start] + selected
        suffix = text[end : anchor.end]
        if not self.continues(typed) or not anchor.replaced_suffix.endswith(suffix):
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


MAX_SUGGESTIONS = 24
MIN_PASTE_CHARACTERS = 3
"""A shorter change may be typing: editors batch keystrokes."""
_MAX_EARLIER_TEXTS = 100
"""The number of earlier texts to recognise."""
MAX_REJECTED = 16
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
        self.is_after_undo = False
        """Whether the user has just undone more than a character or white space."""
        self._suggestions: list[Suggestion] = []
        self._rejected: list[Suggestion] = []
        self._earlier = deque([hash(text)], maxlen=_MAX_EARLIER_TEXTS)

    def changed(self, changes: Sequence[TextChange], text: str) -> list[Suggestion]:
        """`changes` came together, one after the other, and led to `text`. Returns the suggestions typed over."""
        self.text = text
        for change in changes:
            self._rejected = _after_change(self._rejected, change)
            self._suggestions = _after_change(self._suggestions, change)
        shown_suggestions = [item for item in self._suggestions if item.shown_from is not None]
        placed = _changes_still_in_text(changes, text) if shown_suggestions else []
        typed_over = [item for item in shown_suggestions if any(is_typed_over(item, change, text) for change in placed)]
        for suggestion in typed_over:
            self.reject(suggestion.id)
        is_back = hash(text) in self._earlier and hash(text) != self._earlier[-1]  # if they cancel out, it was a slip
        parts = (part for change in changes for part in (change.removed, change.added))
        self.is_after_undo = is_back and any(len(part.strip()) > 1 for part in parts)
        self._earlier.append(hash(text))
        return typed_over

    def inserted_at_once(self, changes: Sequence[TextChange]) -> Suggestion | None:
        """The newest shown suggestion that `changes` inserted in one go, for editors that report no acceptance."""
        if all(len(minimal_change(item.removed, item.added).added) < MIN_PASTE_CHARACTERS for item in changes):
            return None
        shown_suggestions = (item for item in self._suggestions if item.shown_from is not None)
        return next(
            (item for item in shown_suggestions if self.text[item.anchor.start : item.anchor.end] == item.text), None
        )

    def is_shown(self, computation: str) -> bool:
        """Whether any result of a computation was shown, and neither rejected nor lost since."""
        return any(item.computation == computation and item.shown_from is not None for item in self._suggestions)

    def add(self, suggestions: Sequence[Suggestion]) -> None:
        self._suggestions = [*suggestions, *self._suggestions][:MAX_SUGGESTIONS]

    def get(self, suggestion_id: str) -> Suggestion | None:
        """The suggestion with this id, in its current place; None if unknown."""
        return next((item for item in self._suggestions if item.id == suggestion_id), None)

    def refine(self, requested: Suggestion, new_id: str, text: str, confidence: float) -> bool:
        """Shows `text` ahead of `requested`, the suggestion when it was requested; False if either lost its place."""
        current = self.get(requested.id)
        if current is None or not current.anchor.is_fresh(self.text):
            return False
        text = current.text.removesuffix(requested.text) + text
        refined = replace(
            current, id=new_id, text=text, confidence=confidence, invoked=True, shown_from=None, is_refined=True
        )
        if not all(item.continues(item.typed(self.text)) for item in (refined, current)):
            return False
        self.add([refined])
        return True

    def reject(self, suggestion_id: str) -> None:
        if suggestion := self.get(suggestion_id):
            self._rejected = [suggestion, *self._rejected][:MAX_REJECTED]
            self._suggestions = [item for item in self._suggestions if item is not suggestion]

    def suggestions_for(self, request: "InlineRequest") -> "ShownSuggestions":
        """The distinct suggestions for the request's cursor, newest first, at most as many as it wants.

        An automatic request skips rejected ones, and those below its floor unless the user has already seen them.
        """
        cursor = request.cursor
        matches: dict[GhostText, Suggestion] = {}
        for suggestion in self._suggestions:
            ghost_text = suggestion.ghost_text(self.text, cursor)
            if ghost_text is not None and (request.invoked or not self._is_unwanted(suggestion, request.floor)):
                if request.wants_empty and cursor.selected is None:
                    ghost_text = ghost_text.with_empty_range(self.text, cursor.offset)
                matches.setdefault(ghost_text, suggestion)
        return [(suggestion, ghost_text) for ghost_text, suggestion in matches.items()][: request.budget.candidates]

    def mark_shown(self, suggestions: "ShownSuggestions", *, invoked: bool) -> None:
        """Marks these as shown; an explicitly requested one is no longer rejected."""
        starts = {suggestion.id: ghost_text.start - suggestion.anchor.start for suggestion, ghost_text in suggestions}
        self._suggestions = [
            replace(item, shown_from=starts[item.id]) if item.id in starts else item for item in self._suggestions
        ]
        for suggestion, _ in suggestions if invoked else ():
            self._rejected = [
                rejected for rejected in self._rejected if not _have_same_result(suggestion, rejected, self.text)
            ]

    def _is_unwanted(self, suggestion: Suggestion, floor: float) -> bool:
        unsure = suggestion.confidence < floor and suggestion.shown_from is None and not suggestion.is_refined
        return unsure or any(_have_same_result(suggestion, rejected, self.text) for rejected in self._rejected)


def _changes_still_in_text(changes: Sequence[TextChange], text: str) -> list[TextChange]:
    """The changes whose added text still stands in `text`, to which they led, each at its place there."""
    placed: list[TextChange] = []
    for change in changes:
        placed = [replace(item, start=change.move(item.start)) for item in placed] + [change]
    return [item for item in placed if text.startswith(item.added, item.start)]


def _after_change(suggestions: Sequence[Suggestion], change: TextChange) -> list[Suggestion]:
    moved = (suggestion.after(change) for suggestion in suggestions)
    return [suggestion for suggestion in moved if suggestion is not None]


def _have_same_result(a: Suggestion, b: Suggestion, text: str) -> bool:
    first, last = sorted((a.anchor, b.anchor), key=lambda anchor: anchor.start)
    if first.end < last.start:
        return False
    start = first.start
    end = max(first.end, last.end)
    return _result_within(a, text, start, end) == _result_within(b, text, start, end)


def _result_within(suggestion: Suggestion, text: str, start: int, end: int) -> str:
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
    return not any(
        suggestion.ghost_text(text, Cursor(offset)) for offset in near
    )  # the editor may have closed a bracket


ShownSuggestions = Sequence[tuple[Suggestion, GhostText]]
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
    reply: Callable[[ShownSuggestions], Any] = list
    """Makes the answer of the suggestions found, best first, for the text at that moment."""
    result: "asyncio.Future[Any]" = field(init=False, repr=False)
    """The answer, once the request waits for one; may be cancelled."""

    @property
    def is_open(self) -> bool:
        return not self.result.done()

    def answer(self, suggestions: ShownSuggestions = ()) -> None:
        if self.is_open:
            self.result.set_result(self.reply(suggestions))


def offers_choice(suggestions: ShownSuggestions) -> bool:
    """Whether the user asked explicitly and has several to choose from, such as a draft and its improvement."""
    is_refined = bool(suggestions) and suggestions[0][0].is_refined
    return is_refined or (len(suggestions) > 1 and all(suggestion.invoked for suggestion, _ in suggestions))


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
        self.anchor = Anchor.from_text(self.snapshot.text, hole.start, hole.end, self.request.cursor.offset, statement)
        self.typed = self.anchor.typed_prefix
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
        return self.typed != self.anchor.typed_prefix

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
            Suggestion(f"{self.id}.{index}", self.anchor, candidate.texts[0], self.hole, candidate.confidence, invoked)
            for index, candidate in enumerate(filled.candidates)
        ]

    def fill_record(self, suggestion: Suggestion) -> Asked | None:
        """What the model was just asked, if this is its answer; None if the user has typed into the hole since."""
        if self.sent_at_s is None or self.is_amended or suggestion.computation != self.id:
            return None
        took_ms = (asyncio.get_running_loop().time() - self.sent_at_s) * 1000
        return Asked(self.snapshot, [self.hole], [suggestion.text], self.request.budget, self.request.marker, took_ms)

    def show_draft(self, draft: Draft) -> None:
        for request in self.waiting:
            if request.on_draft is not None and request.is_open:
                request.on_draft(draft, partial(self.render_draft, draft, request.cursor.offset))

    def render_draft(self, draft: Draft, cursor: int, text: str) -> list[HoleDraft]:
        """The hole of `draft`, or the rest of a partly typed one, as `text` would show it at `cursor`; may be empty."""
        drafts = []
        for hole in self._drafts.read(draft):
            ghost_text = Suggestion("", self.anchor, hole.text, self.hole).ghost_text(text, Cursor(cursor))
            if ghost_text is not None:
                parts = hole.part(ghost_text.start - self.anchor.start, len(ghost_text.text))
                drafts.append(HoleDraft(ghost_text.start, ghost_text.end, ghost_text.text, *parts))
        return drafts

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

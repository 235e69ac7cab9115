"""Turns events into SQL statements. Reduces texts to similarities and lengths; the texts go no further."""

from collections.abc import Iterator

from lsp_server.usage.events import Answered, Decided, Event, Look, Lost, Pair, PairLook, Shown

_MOST_CHARACTERS = 20_000
"""Cuts longer texts, because the time grows with the product of both lengths."""


def similarity(taken: str, stands: str) -> float:
    """1: the same except for white space at the ends; 0: nothing in common."""
    one, other = taken.strip()[:_MOST_CHARACTERS], stands.strip()[:_MOST_CHARACTERS]
    longest = max(len(one), len(other))
    return 1.0 if longest == 0 or one == other else 1.0 - _distance(one, other) / longest


def _distance(one: str, other: str) -> int:
    """The Levenshtein distance by Myers' bit vectors (1999), with each table column in one integer."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for row, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << row
    every, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    more, less, distance = every, 0, len(one)
    for character in other:
        same = places.get(character, 0)
        diagonal = (((same & more) + more) ^ more) | same
        right_more, right_less = less | (every & ~(diagonal | more)), more & diagonal
        distance += bool(right_more & last) - bool(right_less & last)
        right_more, right_less = (right_more << 1 | 1) & every, (right_less << 1) & every
        more, less = right_less | (every & ~(same | less | right_more)), right_more & (same | less)
    return distance


_SHOWN = """
INSERT INTO suggestion (key, at_s, language, kind, trigger, confidence, characters) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_ANSWERED = """
INSERT INTO answer (suggestion, remembered, first_draft_ms, whole_ms) SELECT key, ?, ?, ? FROM suggestion WHERE key = ?
"""
"""A forgotten suggestion has no answers."""
_DECIDED = "UPDATE suggestion SET outcome = ?, taken_characters = ? WHERE key = ?"
_LOOK = {
    "save": "UPDATE suggestion SET similarity_at_save = ? WHERE key = ?",
    "later": "UPDATE suggestion SET similarity_later = ? WHERE key = ?",
}
_PAIR = """
INSERT INTO pair (
    key, at_s, document, language, trigger, outcome, error, main_model, main_whole_ms, other_model, other_whole_ms
) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM suggestion WHERE key = ?)
    AND NOT EXISTS (SELECT 1 FROM forgotten WHERE at_s >= ?)
"""
"""A forgotten suggestion has no pairs; nor has a request from before all pairs were forgotten."""
_PAIR_HOLE = """
INSERT INTO pair_hole (key, pair, number, suggestion, kind, main_characters, other_characters)
SELECT ?, key, ?, ?, ?, ?, ? FROM pair WHERE key = ?
"""
_PAIR_LOOK = {
    "save": "UPDATE pair_hole SET main_at_save = ?, other_at_save = ? WHERE key = ?",
    "later": "UPDATE pair_hole SET main_at_later = ?, other_at_later = ? WHERE key = ?",
}

Statement = tuple[str, tuple[object, ...]]


def statements_of(event: Event) -> list[Statement]:
    """The statements that write an event. May take a while to compare long texts."""
    return list(_of_pair(event)) if isinstance(event, Pair) else [_statement_of(event)]


def _of_pair(pair: Pair) -> Iterator[Statement]:
    told = (pair.key, pair.at_s, pair.document, pair.language, pair.trigger, pair.outcome, pair.error)
    sides = [(side.model, side.whole_ms) for side in (pair.main, pair.other)]
    yield _PAIR, (*told, *sides[0], *sides[1], pair.holes[0].suggestion, pair.at_s)
    for number, hole in enumerate(pair.holes):
        other = None if hole.other is None else len(hole.other)
        yield _PAIR_HOLE, (hole.key, number, hole.suggestion, hole.kind, len(hole.main), other, pair.key)


def _statement_of(event: Shown | Answered | Decided | Look | PairLook | Lost) -> Statement:
    match event:
        case Shown():
            told = (event.key, event.at_s, event.language, event.kind, event.trigger)
            return _SHOWN, (*told, event.confidence, event.characters)
        case Answered():
            return _ANSWERED, (event.remembered, event.first_draft_ms, event.whole_ms, event.key)
        case Decided():
            return _DECIDED, (event.outcome, event.taken_characters, event.key)
        case Look():
            return _LOOK[event.when], (similarity(event.taken, event.stands), event.key)
        case PairLook():
            hole = event.hole
            other = None if hole.other is None else similarity(hole.other, event.stands)
            return _PAIR_LOOK[event.when], (similarity(hole.main, event.stands), other, hole.key)
        case Lost():
            return "INSERT INTO lost VALUES (?, ?)", (event.at_s, event.events)

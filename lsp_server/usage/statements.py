"""Events as statements of SQL. Here texts become similarities; the texts go no further unless the user keeps them."""

from collections.abc import Iterator

from lsp_server.syntax.source import well_formed
from lsp_server.usage.events import Answered, Decided, Event, Look, Lost, Pair, PairHole, PairLook, Shown
from lsp_server.usage.similarity import similarity

_SHOWN = """
INSERT INTO suggestion (key, at_s, language, kind, trigger, confidence, characters) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_ANSWERED = """
INSERT INTO answer (suggestion, remembered, first_draft_ms, whole_ms) SELECT key, ?, ?, ? FROM suggestion WHERE key = ?
"""
"""Of a suggestion that is forgotten there are no answers."""
_DECIDED = "UPDATE suggestion SET outcome = ?, taken_characters = ? WHERE key = ?"
_LOOK = {
    "save": "UPDATE suggestion SET similarity_at_save = ? WHERE key = ?",
    "later": "UPDATE suggestion SET similarity_later = ? WHERE key = ?",
}
_PAIR = """
INSERT INTO pair (
    key, at_s, document, language, trigger, outcome, error, main_model, main_first_ms, main_whole_ms, main_confidence,
    other_model, other_first_ms, other_whole_ms, other_confidence
) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM suggestion WHERE key = ?)
    AND NOT EXISTS (SELECT 1 FROM forgotten WHERE at_s >= ?)
"""
"""Of a suggestion that is forgotten there are no pairs; nor of a request from before all pairs were forgotten."""
_PAIR_HOLE = """
INSERT INTO pair_hole (
    key, pair, number, suggestion, kind, main_characters, other_characters, similarity, main_text, other_text
) SELECT ?, key, ?, ?, ?, ?, ?, ?, ?, ? FROM pair WHERE key = ?
"""
_PAIR_LOOK = {
    "save": "UPDATE pair_hole SET main_at_save = ?, other_at_save = ?, text_at_save = ? WHERE key = ?",
    "later": "UPDATE pair_hole SET main_at_later = ?, other_at_later = ?, text_at_later = ? WHERE key = ?",
}

Statement = tuple[str, tuple[object, ...]]


def statements_of(event: Event) -> list[Statement]:
    """The statements that write an event. May take a while, where it compares long texts."""
    return list(_of_pair(event)) if isinstance(event, Pair) else [_statement_of(event)]


def _of_pair(pair: Pair) -> Iterator[Statement]:
    told = (pair.key, pair.at_s, pair.document, pair.language, pair.trigger, pair.outcome, pair.error)
    sides = [(side.model, side.first_ms, side.whole_ms, side.confidence) for side in (pair.main, pair.other)]
    yield _PAIR, (*told, *sides[0], *sides[1], pair.holes[0].suggestion, pair.at_s)
    for number, hole in enumerate(pair.holes):
        other = None if hole.other is None else len(hole.other)
        texts = (_kept(hole.main), _kept(hole.other)) if pair.keeps_texts else (None, None)
        lengths = (len(hole.main), other, _similarity_to(hole.main, hole))
        yield _PAIR_HOLE, (hole.key, number, hole.suggestion, hole.kind, *lengths, *texts, pair.key)


def _similarity_to(text: str, hole: PairHole) -> float | None:
    """Of what the other model wrote, to `text`; None where it wrote nothing."""
    return None if hole.other is None else similarity(hole.other, text)


def _kept(text: str | None) -> str | None:
    """A text as the file can hold it: without halves of surrogate pairs."""
    return None if text is None else well_formed(text)


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
            found = (similarity(event.hole.main, event.stands), _similarity_to(event.stands, event.hole))
            return _PAIR_LOOK[event.when], (*found, _kept(event.stands) if event.keeps_texts else None, event.hole.key)
        case Lost():
            return "INSERT INTO lost VALUES (?, ?)", (event.at_s, event.events)

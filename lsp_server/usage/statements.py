"""Events as statements of SQL. Here texts become similarities: nothing else of them goes further."""

from lsp_server.usage.events import Answered, Decided, Event, Look, Lost, Shown
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

Statement = tuple[str, tuple[object, ...]]


def statement_of(event: Event) -> Statement:
    """The statement that writes an event. May take a while, where it compares long texts."""
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
        case Lost():
            return "INSERT INTO lost VALUES (?, ?)", (event.at_s, event.events)

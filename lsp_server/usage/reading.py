"""Reads the records back: the suggestions of the last days and the answers that showed them."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lsp_server.usage.store import open_store


class SuggestionRow(NamedTuple):
    """One row, in the order of the selected columns."""

    key: int
    at_s: float
    language: str
    kind: str
    trigger: str
    characters: int
    outcome: str | None
    taken_characters: int
    similarity_at_save: float | None
    similarity_later: float | None


class AnswerRow(NamedTuple):
    """One answered request."""

    suggestion: int
    remembered: bool
    first_draft_ms: float | None
    whole_ms: float


@dataclass(frozen=True)
class Recorded:
    """`lost` events could not be written in time. `moved`: a message if the file had to be set aside, else empty."""

    suggestions: Sequence[SuggestionRow] = ()
    answers: Sequence[AnswerRow] = ()
    lost: int = 0
    moved: str = ""


_SUGGESTIONS = """
SELECT key, at_s, language, kind, trigger, characters, outcome, taken_characters, similarity_at_save, similarity_later
FROM suggestion WHERE at_s >= ? ORDER BY at_s
"""
_ANSWERS = """
SELECT suggestion, remembered, first_draft_ms, whole_ms FROM answer
WHERE suggestion IN (SELECT key FROM suggestion WHERE at_s >= ?)
"""
_LOST = "SELECT coalesce(sum(events), 0) FROM lost WHERE at_s >= ?"


def read(file: Path, since_s: float) -> Recorded:
    """The records since then (Unix time); empty if there is no file. Raises UsageFileError, sqlite3.Error."""
    if not file.exists() and not file.is_symlink():
        return Recorded()
    connection, moved = open_store(file)
    with closing(connection):
        connection.execute("BEGIN")  # all at the same moment
        suggestions = [SuggestionRow(*row) for row in connection.execute(_SUGGESTIONS, (since_s,))]
        rows = connection.execute(_ANSWERS, (since_s,))
        answers = [AnswerRow(key, bool(known), *times) for key, known, *times in rows]
        (lost,) = connection.execute(_LOST, (since_s,)).fetchone()
    return Recorded(suggestions, answers, lost, moved)

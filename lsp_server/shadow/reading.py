"""What was recorded of requests that both models were asked, read back."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lsp_server.usage.store import open_store


class HoleRow(NamedTuple):
    """One hole, in the order of the columns that are read. `taken` is what became of the main model's text.

    Similarities are None where nothing was looked at, or where the other model wrote nothing.
    """

    pair: int
    kind: str
    taken: str | None
    similarity: float | None
    main_at_save: float | None
    other_at_save: float | None
    main_at_later: float | None
    other_at_later: float | None

    @property
    def main(self) -> float | None:
        """How similar what the main model wrote is to what was last seen there."""
        return self.main_at_save if self.main_at_later is None else self.main_at_later

    @property
    def other(self) -> float | None:
        """The same of the other model."""
        return self.other_at_save if self.main_at_later is None else self.other_at_later


class PairRow(NamedTuple):
    """One request, in the order of the columns that are read."""

    key: int
    document: int
    language: str
    outcome: str
    error: str
    main_model: str
    main_first_ms: float | None
    main_whole_ms: float | None
    other_model: str
    other_first_ms: float | None
    other_whole_ms: float | None


@dataclass(frozen=True)
class Compared:
    """A request that both models were asked, with its holes."""

    row: PairRow
    holes: Sequence[HoleRow]

    @property
    def kind(self) -> str:
        """The kind of the first hole."""
        return self.holes[0].kind


@dataclass(frozen=True)
class RecordedPairs:
    """In the order in which they were answered. `moved`: in words, that the file had to be set aside, or nothing."""

    pairs: Sequence[Compared] = ()
    moved: str = ""


_PAIRS = """
SELECT key, document, language, outcome, error, main_model, main_first_ms, main_whole_ms, other_model, other_first_ms,
    other_whole_ms
FROM pair WHERE at_s >= ? ORDER BY at_s, key
"""
_HOLES = """
SELECT pair, hole.kind, suggestion.outcome, similarity, main_at_save, other_at_save, main_at_later, other_at_later
FROM pair_hole AS hole JOIN pair ON pair.key = hole.pair LEFT JOIN suggestion ON suggestion.key = hole.suggestion
WHERE pair.at_s >= ? ORDER BY hole.pair, hole.number
"""


def read_pairs(file: Path, since_s: float) -> RecordedPairs:
    """What is recorded since then (Unix time); nothing where there is no file. Raises UsageFileError, sqlite3.Error."""
    if not file.exists() and not file.is_symlink():
        return RecordedPairs()
    connection, moved = open_store(file)
    try:
        return RecordedPairs(_read(connection, since_s), moved)
    finally:
        connection.close()


def _read(connection: sqlite3.Connection, since_s: float) -> list[Compared]:
    connection.execute("BEGIN")  # both at one moment
    rows = [PairRow(*row) for row in connection.execute(_PAIRS, (since_s,))]
    holes: dict[int, list[HoleRow]] = {row.key: [] for row in rows}
    for hole in connection.execute(_HOLES, (since_s,)):
        holes[hole[0]].append(HoleRow(*hole))
    return [Compared(row, holes[row.key]) for row in rows if holes[row.key]]

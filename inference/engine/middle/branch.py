"""One text in progress: its given tokens, the model's chosen ones, and the confidence of each."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from inference.engine.canvas import fills
from inference.engine.canvas.answered import RankedFill
from inference.engine.canvas.fills import Written
from inference.engine.canvas.layout import Slots
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.middle.asking import Asked

_LAST_WORD = re.compile(rb"[\w\x80-\xff]+\Z")


class Choice(NamedTuple):
    """A token, its log-probability among the allowed ones, and the likeliest alternatives with theirs."""

    id: int
    chance: float
    others: tuple[tuple[int, float], ...] = ()


class End(StrEnum):
    """Why writing stopped."""

    TEXT = "text"
    """The model ended it, or its line, or ran into the text behind the hole."""
    ROOM = "room"
    """It reached its token limit."""
    LATE = "late"


@dataclass
class Branch:
    """One text: `ids` behind the prompt, the first `forced` of them given. Its choices include the one that ends it."""

    asked: Asked
    ids: list[int]
    forced: int
    data: bytes
    choices: list[Choice] = field(default_factory=list)
    end: End | None = None

    @classmethod
    def given(cls, vocabulary: Vocabulary, asked: Asked) -> "Branch":
        """Only the given tokens, minus the last, which is decoded again."""
        ids = vocabulary.encode(asked.given.decode())[:-1]
        while not asked.given.startswith(data := vocabulary.bytes_of(ids)):  # a tokenizer that changes text
            ids.pop()
        return cls(asked, ids, len(ids), data)

    @classmethod
    def standing(cls, vocabulary: Vocabulary, asked: Asked, text: str) -> tuple["Branch", list[int]]:
        """Only the text in front of a hole on its line, and the tokens of the hole's current text to read behind it."""
        line = asked.given[: asked.skip]
        ids = vocabulary.encode(line.decode() + text)
        count = len(ids)
        while len(vocabulary.bytes_of(ids[:count])) > len(line):
            count -= 1
        here = replace(asked, given=line, room=max(asked.room, len(ids)))
        return cls(here, ids[:count], count, vocabulary.bytes_of(ids[:count])), ids[count:]

    @property
    def rest(self) -> bytes:
        """The given tokens that are not written yet."""
        return self.asked.given[len(self.data) :]

    @property
    def tokens(self) -> int:
        """The number of tokens chosen for the text; 0 until some of it is visible."""
        return len(self.ids) - self.forced if self.data[len(self.asked.given) :].strip() else 0

    @property
    def total(self) -> float:
        """The log-probability of all choices together."""
        return sum(choice.chance for choice in self.choices)

    @property
    def score(self) -> float:
        """The mean log-probability of a choice."""
        return self.total / max(1, len(self.choices))

    @property
    def text(self) -> str:
        """The fill as written so far."""
        return self.asked.text(self.data, ended=self.end is not None)

    def stop(self, end: End) -> None:
        """Stops writing. Drops anything half-written: the last of several lines, the last word of a late line."""
        self.end = end
        start = max(self.asked.skip, len(self.asked.given))
        written = self.data[start:]
        if end is not End.TEXT and not self.asked.single_line and b"\n" in written.strip(b"\n"):
            written = written[: written.rindex(b"\n")]
        elif end is End.LATE:
            written = _LAST_WORD.sub(b"", written).rstrip(b" \t") or written
        self.data = self.data[:start] + written

    def typed(self, text: str) -> bool:
        """Makes the fill begin with `text` from now on. False if it does not, and the given tokens cannot change."""
        asked = self.asked
        if asked.question is not None or not text.startswith(asked.head):
            return self.text.startswith(text)
        given = asked.given[: asked.skip] + text[len(asked.head) :].encode()
        self.asked = replace(asked, given=given)
        return self.data.startswith(given) or (self.end is None and given.startswith(self.data))

    def until(self, place: int) -> "Branch":
        """A copy that continues from before the choice of this number."""
        return Branch(self.asked, self.ids[: self.forced + place], self.forced, b"", self.choices[:place])

    def ranked(self, number: int, steps: int) -> RankedFill:
        """The text as one answer for a hole."""
        sure = [1.0] * self.forced + [math.exp(choice.chance) for choice in self.choices]
        written = Written(self.ids, sure, ((0, self.forced, len(self.ids)),), steps)
        return RankedFill((self.text,), self.score, len(self.ids) - self.forced, number, written)

    def pieces(self, vocabulary: Vocabulary) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """The fill so far as a text per token, and the model's confidence in each; a chat turn's as one text."""
        sure = [1.0] * self.forced + [math.exp(choice.chance) for choice in self.choices]
        text = self.text
        if self.asked.question is not None or self.asked.head:
            return (text,), (sum(sure) / len(sure) if sure else 1.0,)
        slots = Slots(len(self.ids), skip=self.asked.skip)
        found, chances = fills.pieces(vocabulary, self.ids, sure, (0, self.forced, len(self.ids)), slots)
        return _cut(found, chances, len(text))


def _cut(pieces: Sequence[str], chances: Sequence[float], most: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The pieces of the first `most` characters."""
    kept: list[str] = []
    for piece in pieces:
        kept.append(piece[:most])
        most -= len(kept[-1])
    kept = [piece for piece in kept if piece]
    return tuple(kept), tuple(chances[: len(kept)])

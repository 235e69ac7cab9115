"""Next edit lessons, and the texts of one as a tree of tokens: shared parts are stored once."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from inference.engine.canvas.vocabulary import Vocabulary

_MOST_PLACES, _ALIKE = 2, 0.5


class LessonPlace(msgspec.Struct, frozen=True):
    """A place to judge. `texts` begins with the current text; `wanted` numbers the others from 0, -1: leave it."""

    place: str
    texts: tuple[str, ...]
    likeness: tuple[float, ...]
    wanted: int


class Lesson(msgspec.Struct, frozen=True):
    """The engine's question after `made` changes of a case, with the changes `left` still wanted."""

    name: str
    kind: str
    made: int
    left: int
    head: str
    places: tuple[LessonPlace, ...]

    @property
    def has_wanted(self) -> bool:
        """Whether one of its places needs a change."""
        return any(place.wanted >= 0 for place in self.places)

    @property
    def is_plain(self) -> bool:
        """Whether it would teach little: nothing needs a change, and nothing looks like it."""
        return all(place.wanted < 0 and max(place.likeness) < _ALIKE for place in self.places)

    def chosen(self, chance: random.Random) -> "Lesson":
        """A few of its places: those that need a change, then others, the most alike more often."""
        order = sorted(self.places, key=lambda one: (one.wanted < 0, chance.random() - 2 * max(one.likeness)))
        return msgspec.structs.replace(self, places=tuple(order[:_MOST_PLACES]))


@dataclass(frozen=True)
class TreePlace:
    """For each text the rows that predict its tokens, and these; without the tokens that all texts begin with."""

    texts: list[tuple[Tensor, Tensor]]
    likeness: tuple[float, ...]
    wanted: int


@dataclass(frozen=True)
class Tree:
    """Tokens, their depths, their visible tokens, and those whose successors are wanted: `rows`."""

    ids: Tensor  # (n,)
    depths: Tensor  # (n,)
    mask: Tensor  # (n, n)
    rows: Tensor
    places: list[TreePlace]


class _Growing:
    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parents: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def add(self, parent: int, ids: Sequence[int]) -> list[int]:
        """The nodes of consecutive tokens behind a node, -1: the root."""
        path = []
        for id_ in ids:
            node = self._children.get((parent, id_))
            if node is None:
                node = self._children[parent, id_] = len(self.ids)
                self.ids.append(id_)
                self.parents.append(parent)
            path.append(node)
            parent = node
        return path

    def depths_and_mask(self) -> tuple[Tensor, Tensor]:
        """The number of ancestors of each token, and the visible ones: these and itself."""
        seen = torch.zeros(len(self.ids), len(self.ids), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] = seen[parent]
            seen[node, node] = True
        return seen.sum(1) - 1, seen


def read(file: Path) -> Iterator[Lesson]:
    """The lessons of a file; leaves out an incomplete last line."""
    decoder = msgspec.json.Decoder(Lesson)
    with file.open("rb") as lines:
        yield from (decoder.decode(line) for line in lines if line.endswith(b"\n"))


def tree_of(vocabulary: Vocabulary, lesson: Lesson) -> Tree:
    """A lesson as the engine encodes it."""
    growing, numbers, places = _Growing(), dict[int, int](), []
    head = growing.add(-1, vocabulary.encode(lesson.head))[-1]
    for place in lesson.places:
        end = growing.add(head, vocabulary.encode(place.place))[-1]
        texts = [vocabulary.encode(text) for text in place.texts]
        same = _shared(texts)
        pairs = []
        for ids in texts:
            rows = [end, *growing.add(end, ids[:-1])][same:]
            named = torch.tensor([numbers.setdefault(row, len(numbers)) for row in rows], dtype=torch.long)
            pairs.append((named, torch.tensor(ids[same:], dtype=torch.long)))
        places.append(TreePlace(pairs, place.likeness, place.wanted))
    depths, mask = growing.depths_and_mask()
    return Tree(torch.tensor(growing.ids), depths, mask, torch.tensor(list(numbers)), places)


def _shared(texts: Sequence[Sequence[int]]) -> int:
    """The length of their common prefix, in tokens."""
    columns = zip(*texts, strict=False)
    return next((n for n, column in enumerate(columns) if len(set(column)) > 1), min(map(len, texts)))

"""The likelihood of everything from a request's first hole to its last, which decides between texts of its holes."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from inference.engine.canvas.segments import TextAndHoles
from inference.engine.loaded_model import LoadedModel
from inference.engine.middle import question
from inference.engine.middle.asking import Asking
from inference.engine.middle.branch import Branch
from inference.engine.middle.writer import Writer
from inference.messages import Hole
from inference.models.family import common_start


class Region:
    """All that as one long fill, between the text in front of the first hole and the text behind the last."""

    def __init__(self, model: LoadedModel, asking: Asking, parts: TextAndHoles) -> None:
        """Raises RequestError if the model cannot read all of it."""
        self._vocabulary, self._inner = model.vocabulary, [*parts.texts[1:-1], ""]
        kept = self._inside([hole.text if hole.strength == 0 else "" for hole in parts.holes])
        most = question.tokens(kept) + sum(map(question.room, parts.holes))
        around = TextAndHoles((parts.texts[0], parts.texts[-1]), (Hole(max_tokens=most),))
        self.asked = asking.of(around, ("",), 0)
        self._last = Branch(self.asked, [], 0, b"")

    def unread_tokens(self, number: int, fills: Sequence[str], texts: int) -> int:
        """How many tokens to read in order to know the likelihood with so many texts for one hole."""
        new = 0 if self._last.ids else len(self._vocabulary.encode(self._inside(fills)))
        return new + texts * len(self._vocabulary.encode(self._inside(fills, number)))

    def log_likelihood(
        self, writer: Writer, fills: Sequence[str], is_late: Callable[[], bool] = lambda: False
    ) -> Generator[None, None, float | None]:
        """The log-probability of the region with these fills, and of its end; None if time runs out first.

        Each `next` is a forward pass. `writer` has read the prompt of `asked`. The start that the region shares with
        the last one is not read again. The text in front of the first hole counts, too: how it becomes tokens depends
        on what follows.
        """
        ids = self._vocabulary.encode(self.asked.given.decode() + self._inside(fills))
        branch = self._last.until(common_start(self._last.ids, ids))
        branch.asked = replace(self.asked, room=max(self.asked.room, len(ids)))
        branch.data = self._vocabulary.bytes_of(branch.ids)
        for _ in writer.read(branch, ids[len(branch.ids) :]):
            yield
            if is_late():
                return None
        self._last = branch
        end = writer.log_end(branch)
        yield
        return branch.total + end

    def _inside(self, fills: Sequence[str], first: int = 0) -> str:
        """The fills from number `first` on, with the pinned text between them."""
        return "".join(fill + text for fill, text in zip(fills[first:], self._inner[first:], strict=True))

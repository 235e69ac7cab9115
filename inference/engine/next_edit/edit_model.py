"""Rewrites the lines around the cursor with an edit model, the likeliest token each time.

Most lines come back as they are, so their present tokens are the guesses that a pass verifies. It forgets wrong ones,
so the text is the same without guesses (Stern et al., 2018, https://arxiv.org/abs/1811.03115). A rewrite that the
model is unsure of is none.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import islice
from typing import cast

import torch

from inference.deadline import Deadline
from inference.engine.loaded_model import LoadedModel
from inference.engine.middle.decode import Lookup
from inference.engine.work import Work
from inference.messages import Done, Edit, EditKind, Hunk, NextEditRequest, NextEdits, Outcome
from inference.models.edit_prompts import EditPrompt, missing_token, prompt_for
from inference.models.family import MiddleContext, MiddleFamily, common_start

MOST_GUESSED = 16
_WARM_PASSES = 4
_MORE_TOKENS = 256
"""A rewrite may have this many tokens more than its region."""
_TAIL_TOKENS = 4

_Event = NextEdits | Done


def why_not(model: LoadedModel, kind: EditKind) -> str:
    """Why a model cannot be asked so; "" if it can."""
    if not model.traits.fills_middle:
        return "it does not write from left to right, so it is no edit model; give Zeta 2, Zeta or Sweep"
    token = missing_token(kind, lambda token: model.vocabulary.id_of(token) is not None)
    return token and f"it has no token {token}, so it is no {kind} model; give one, or change nextEdit.kind"


def warm_up(model: LoadedModel, kind: EditKind) -> None:
    """The first steps of a small rewrite, so that the first user does not pay for one-time setup."""
    text = "def area(width):\n    return width * height\n" * 8
    request = NextEditRequest("warm-up", text, (Hunk(0, "def area(w):\n", "def area(width):\n"),), cursor=len(text))
    with closing(EditRewriting(model, kind, request, None, most=2)) as work:
        for _ in islice(work, _WARM_PASSES):
            pass


class EditRewriting(Work[_Event]):
    """The work on one request, as a generator: each step does at most one forward pass. Yields `NextEdits`, then Done.

    `passes` counts those that wrote, and `written` is the text so far. An answer cut by the deadline is none.
    """

    def __init__(
        self,
        model: LoadedModel,
        kind: EditKind,
        request: NextEditRequest,
        deadline: Deadline | None,
        most: int | None = None,
    ) -> None:
        """`most`: the guesses of a pass, as many as pay if None."""
        super().__init__(deadline)
        self._model = model
        self._kind = kind
        self._request = request
        self._most = min(MOST_GUESSED, max(1, model.traits.free_rows - 1)) if most is None else most
        self.passes = 0
        self.written = ""

    def _work(self) -> Generator[_Event | None, None, None]:
        prompt = prompt_for(self._kind, self._request)
        edits = () if prompt is None else (yield from self._edits(prompt))
        yield NextEdits(self._request.id, edits)
        yield Done(self._request.id, Outcome.DEADLINE if self._late() else Outcome.COMPLETE, self._counters.stats())

    def _edits(self, prompt: EditPrompt) -> Generator[None, None, tuple[Edit, ...]]:
        ids = self._encoded(prompt)
        draft = self._model.vocabulary.encode(prompt.draft)
        family = cast("MiddleFamily", self._model.family)
        with closing(family.open(ids)) as context:
            if not (yield from self._encode(context, ids)):
                return ()
            pieces = yield from self._pieces(context, draft, prompt.ends)
        return prompt.edits(self.written, prompt.sure(pieces)) if pieces else ()

    def _encoded(self, prompt: EditPrompt) -> list[int]:
        """The prompt's tokens: its control texts are single ones where the model has them."""
        vocabulary = self._model.vocabulary
        known = {mark: id_ for mark in prompt.controls if (id_ := vocabulary.id_of(mark)) is not None}
        parts = re.split(f"({'|'.join(map(re.escape, known))})", prompt.text) if known else [prompt.text]
        ids = [*cast("MiddleFamily", self._model.family).begin_ids]
        for part in parts:
            ids += [known[part]] if part in known else vocabulary.encode(part)
        return ids

    @torch.inference_mode()
    def _pieces(
        self, context: MiddleContext, draft: Sequence[int], ends: Sequence[str]
    ) -> Generator[None, None, list[tuple[bytes, float]]]:
        """The tokens of the answer up to one of its ends, with their probabilities; none if it is late or endless."""
        family = cast("MiddleFamily", self._model.family)
        vocabulary = self._model.vocabulary
        room = len(draft) + _MORE_TOKENS
        lookup = Lookup(draft)
        place = 0
        writing = context.continuation(room + MOST_GUESSED)
        ids, last = list[int](), list[int]()
        pieces = list[tuple[bytes, float]]()
        while len(ids) < room and not self._late():
            guessed = list(draft[place : place + self._most]) or lookup.guess(ids[-_TAIL_TOKENS:], self._most)
            rows = writing.feed_rows(torch.tensor([[*last, *guessed]], dtype=torch.long, device=family.device))[0]
            likeliest = rows.argmax(-1).tolist()
            right = common_start(guessed, likeliest)
            writing.trim(len(guessed) - right)
            chances = (rows[: right + 1].amax(-1) - rows[: right + 1].logsumexp(-1)).exp().tolist()
            new, last = likeliest[: right + 1], [likeliest[right]]
            ids += new
            pieces += [(vocabulary.bytes_of([id_]), chance) for id_, chance in zip(new, chances, strict=True)]
            self.passes += 1
            self.written = vocabulary.decode(ids)
            if not family.end_ids.isdisjoint(ids) or any(end in self.written for end in ends):
                return pieces
            place = self._next_place(draft, place + right, ids, lookup)
            yield None
        return []

    def _next_place(self, draft: Sequence[int], place: int, ids: Sequence[int], lookup: Lookup) -> int:
        """Where the draft goes on: behind its token that was right, or behind the same tokens as the text's last."""
        if draft[place : place + 1] == ids[-1:]:
            return place + 1
        following = lookup.guess(ids[-_TAIL_TOKENS:], len(draft))
        return len(draft) - len(following) if following else len(draft)

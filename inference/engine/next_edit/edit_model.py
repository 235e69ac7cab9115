"""Rewrites the lines around the cursor with an edit model, the likeliest token each time.

Most lines come back as they are, so their current tokens are the draft tokens that a pass verifies. It rolls back wrong
ones: the text is the same without (Stern et al., 2018, https://arxiv.org/abs/1811.03115). Unsure rewrites are dropped.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import islice

import torch

from inference.deadline import Deadline
from inference.engine.fim.decode import PromptLookup
from inference.engine.loaded_model import LoadedModel
from inference.engine.work import RequestRun
from inference.messages import Done, EditKind, Hunk, NextEditRequest, NextEdits, Outcome, ScoredEdit
from inference.models.edit_prompts import EditPrompt, edit_prompt_for, missing_token
from inference.models.family import FimPrefixHandle, common_prefix_length

MAX_DRAFT_TOKENS = 16
_WARM_UP_PASSES = 4
_MAX_ADDED_TOKENS = 256
"""A rewrite may have this many tokens more than its region."""
_NGRAM_TOKENS = 4

_Event = NextEdits | Done


def edit_model_problem(model: LoadedModel, kind: EditKind) -> str | None:
    """Returns why a model cannot rewrite as an edit model of that kind; None if it can."""
    if not model.traits.is_fim:
        return "it does not write from left to right, so it is no edit model; give Zeta 2, Zeta or Sweep"
    token = missing_token(kind, lambda token: model.vocabulary.id_of(token) is not None)
    return f"it has no token {token}, so it is no {kind} model; give one, or change nextEdit.kind" if token else None


def warm_up(model: LoadedModel, kind: EditKind) -> None:
    """The first steps of a small rewrite, so that the first user does not pay for one-time setup."""
    text = "def area(width):\n    return width * height\n" * 8
    request = NextEditRequest("warm-up", text, (Hunk(0, "def area(w):\n", "def area(width):\n"),), cursor=len(text))
    with closing(NextEditRewriteRun(model, kind, request, None)) as work:
        for _ in islice(work, _WARM_UP_PASSES):
            pass


class NextEditRewriteRun(RequestRun[_Event]):
    """The work on one request, as a generator: each step does at most one forward pass. Yields `NextEdits`, then Done.

    `passes` counts the decoding passes, and `output` is the text so far. An answer cut by the deadline is dropped.
    """

    def __init__(
        self,
        model: LoadedModel,
        kind: EditKind,
        request: NextEditRequest,
        deadline: Deadline | None,
        max_draft_tokens: int = MAX_DRAFT_TOKENS,
    ) -> None:
        super().__init__(deadline)
        self._model = model
        self._kind = kind
        self._request = request
        self._max_draft_tokens = min(max_draft_tokens, max(1, model.traits.free_rows - 1))
        self.passes = 0
        self.output = ""

    def _run(self) -> Generator[_Event | None, None, None]:
        prompt = edit_prompt_for(self._kind, self._request)
        edits = () if prompt is None else (yield from self._edits(prompt))
        yield NextEdits(self._request.id, edits)
        yield Done(self._request.id, Outcome.DEADLINE if self._is_late() else Outcome.COMPLETE, self._counters.stats())

    def _edits(self, prompt: EditPrompt) -> Generator[None, None, tuple[ScoredEdit, ...]]:
        ids = self._prompt_ids(prompt)
        draft = self._model.vocabulary.encode(prompt.unchanged_answer())
        family = self._model.fim_adapter
        with closing(family.open_prefix(ids)) as context:
            if not (yield from self._prefill_context(context, ids)):
                return ()
            tokens = yield from self._decode(context, draft, prompt.stop_strings)
        return prompt.parse_edits(self.output, prompt.confidence(tokens)) if tokens else ()

    def _prompt_ids(self, prompt: EditPrompt) -> list[int]:
        """Returns the prompt's tokens. Its control texts are single tokens where the model has them."""
        vocabulary = self._model.vocabulary
        control_ids = {mark: id_ for mark in prompt.control_tokens if (id_ := vocabulary.id_of(mark)) is not None}
        parts = re.split(f"({'|'.join(map(re.escape, control_ids))})", prompt.text) if control_ids else [prompt.text]
        ids = [*self._model.fim_adapter.begin_ids]
        for part in parts:
            ids += [control_ids[part]] if part in control_ids else vocabulary.encode(part)
        return ids

    @torch.inference_mode()
    def _decode(
        self, context: FimPrefixHandle, draft: Sequence[int], stop_strings: Sequence[str]
    ) -> Generator[None, None, list[tuple[bytes, float]]]:
        """Returns the tokens up to a stop, with their probabilities; none past the deadline or at the token limit."""
        family = self._model.fim_adapter
        vocabulary = self._model.vocabulary
        max_tokens = len(draft) + _MAX_ADDED_TOKENS
        lookup = PromptLookup(draft)
        position = 0
        continuation = context.continuation(max_tokens + MAX_DRAFT_TOKENS)
        ids, last = list[int](), list[int]()
        tokens = list[tuple[bytes, float]]()
        while len(ids) < max_tokens and not self._is_late():
            draft_ids = list(draft[position : position + self._max_draft_tokens])
            draft_ids = draft_ids or lookup.draft(ids[-_NGRAM_TOKENS:], self._max_draft_tokens)
            input_ids = torch.tensor([[*last, *draft_ids]], dtype=torch.long, device=family.device)
            logits = continuation.verify(input_ids)[0]
            likeliest = logits.argmax(-1).tolist()
            num_accepted = common_prefix_length(draft_ids, likeliest)
            continuation.rollback(len(draft_ids) - num_accepted)
            logits = logits[: num_accepted + 1]
            probs = (logits.amax(-1) - logits.logsumexp(-1)).exp().tolist()
            new, last = likeliest[: num_accepted + 1], [likeliest[num_accepted]]
            ids += new
            tokens += [(vocabulary.bytes_of([id_]), prob) for id_, prob in zip(new, probs, strict=True)]
            self.passes += 1
            self.output = vocabulary.decode(ids)
            if not family.stop_ids.isdisjoint(ids) or any(stop in self.output for stop in stop_strings):
                return tokens
            position = self._next_position(draft, position + num_accepted, ids, lookup)
            yield None
        return []

    def _next_position(self, draft: Sequence[int], position: int, ids: Sequence[int], lookup: PromptLookup) -> int:
        """Returns where the draft continues: after its accepted token, or after the n-gram that ends the output."""
        if draft[position : position + 1] == ids[-1:]:
            return position + 1
        following = lookup.draft(ids[-_NGRAM_TOKENS:], len(draft))
        return len(draft) - len(following) if following else len(draft)

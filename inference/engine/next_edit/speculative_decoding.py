"""Decodes the likeliest text that takes the place of another.

Most lines come back as they are, so the current tokens are the draft tokens that a pass verifies. It rolls back wrong
ones: the text is the same without (Stern et al., 2018, https://arxiv.org/abs/1811.03115).
"""

from collections.abc import Generator, Sequence

import torch

from inference.deadline import Deadline
from inference.engine.fim.decode import PromptLookup
from inference.engine.loaded_model import LoadedModel
from inference.engine.request_run import RequestRun
from inference.messages import Done, NextEdits
from inference.models.family import FimPrefixHandle, common_prefix_length

NextEditEvent = NextEdits | Done
MAX_DRAFT_TOKENS = 16
_MAX_ADDED_TOKENS = 256
"""A rewrite may have this many tokens more than its region."""
_NGRAM_TOKENS = 4


class NextEditRun(RequestRun[NextEditEvent]):
    """The work on a request for next edits: `passes` counts the decoding passes, and `output` is the text so far."""

    def __init__(self, model: LoadedModel, deadline: Deadline | None, max_draft_tokens: int = MAX_DRAFT_TOKENS) -> None:
        super().__init__(deadline)
        self._model = model
        self._max_draft_tokens = min(max_draft_tokens, max(1, model.traits.free_rows - 1))
        self.passes = 0
        self.output = ""

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

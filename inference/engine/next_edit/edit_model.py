"""Rewrites the lines around the cursor with an edit model, and drops rewrites of low confidence."""

import re
from collections.abc import Generator
from contextlib import closing
from itertools import islice

from inference.deadline import Deadline
from inference.engine.loaded_model import LoadedModel
from inference.engine.next_edit.speculative_decoding import MAX_DRAFT_TOKENS, NextEditEvent, NextEditRun
from inference.messages import Done, EditKind, Hunk, NextEditRequest, NextEdits, Outcome, ScoredEdit
from inference.models.edit_prompts import EditPrompt, edit_prompt_for, missing_prompt_token

_WARM_UP_PASSES = 4


def edit_model_problem(model: LoadedModel, kind: EditKind) -> str | None:
    """Returns why a model cannot rewrite as an edit model of that kind; None if it can."""
    if not model.traits.is_fim:
        return "it does not write from left to right, so it is no edit model; give Zeta 2, Zeta or Sweep"
    token = missing_prompt_token(kind, lambda token: model.vocabulary.id_of(token) is not None)
    return f"it has no token {token}, so it is no {kind} model; give one, or change nextEdit.kind" if token else None


def warm_up(model: LoadedModel, kind: EditKind) -> None:
    """Runs the first steps of a small rewrite, so that the first user does not wait for one-time setup."""
    text = "def area(width):\n    return width * height\n" * 8
    request = NextEditRequest("warm-up", text, (Hunk(0, "def area(w):\n", "def area(width):\n"),), cursor=len(text))
    with closing(NextEditRewriteRun(model, kind, request, None)) as work:
        for _ in islice(work, _WARM_UP_PASSES):
            pass


class NextEditRewriteRun(NextEditRun):
    """Yields `NextEdits`, then Done. Each step makes at most one forward pass.

    An answer cut by the deadline is dropped.
    """

    def __init__(
        self,
        model: LoadedModel,
        kind: EditKind,
        request: NextEditRequest,
        deadline: Deadline | None,
        max_draft_tokens: int = MAX_DRAFT_TOKENS,
    ) -> None:
        super().__init__(model, deadline, max_draft_tokens)
        self._kind = kind
        self._request = request

    def _run(self) -> Generator[NextEditEvent | None, None, None]:
        prompt = edit_prompt_for(self._kind, self._request)
        edits = () if prompt is None else (yield from self._edits(prompt))
        yield NextEdits(self._request.id, edits)
        yield Done(self._request.id, Outcome.DEADLINE if self._is_late() else Outcome.COMPLETE, self._counters.stats())

    def _edits(self, prompt: EditPrompt) -> Generator[None, None, tuple[ScoredEdit, ...]]:
        ids = self._prompt_ids(prompt)
        draft = self._model.vocabulary.encode(prompt.unchanged_answer())
        adapter = self._model.fim_adapter
        with closing(adapter.open_prefix(ids)) as context:
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

"""One loaded model, ready to fill holes."""

from typing import Any

from inference.deadline import Deadline
from inference.engine.canvas import prompt
from inference.engine.diffusion_run import DiffusionRun
from inference.engine.errors import FILLS_NOTHING_MESSAGE, RequestError
from inference.engine.fim import prompt as fim_prompt
from inference.engine.fim.fim_run import FimRun
from inference.engine.loaded_model import LoadedModel
from inference.engine.next_edit import edit_model
from inference.engine.next_edit.edit_model import NextEditRewriteRun
from inference.engine.next_edit.judging import NextEditJudgeRun
from inference.messages import EditKind, Hole, HoleKind, InfillRequest, NextEditRequest, PinnedText
from inference.models.family import ModelAdapter, ModelError


class Engine:
    """Fills the holes of requests. Not thread-safe: one thread drives all its iterators."""

    def __init__(self, model: LoadedModel | ModelAdapter, edits: EditKind | None = None) -> None:
        """`model`: a family's model as models/registry.py loads it, possibly shared with other engines.

        `edits` is the kind of an edit model, which rewrites instead of judging. Raises ModelError if it cannot.
        """
        self.edits = edits
        self.loaded = model if isinstance(model, LoadedModel) else LoadedModel.from_adapter(model)
        adapter = self.loaded.adapter
        self.model = adapter.name
        self.dtype = adapter.dtype
        self.device = adapter.traits.runs_on or str(adapter.device)
        self._fim_adapter = self.loaded.fim_adapter if adapter.traits.is_fim else None
        problem = self._fim_adapter.why_no_fills if self._fim_adapter else None
        if edits:
            problem = edit_model.edit_model_problem(self.loaded, edits)
        if problem:
            raise ModelError(f"{adapter.name}: {problem}")
        if self._fim_adapter is not None:
            self.context_tokens = fim_prompt.max_snippet_tokens(self.loaded)
        else:
            self.context_tokens = prompt.max_snippet_tokens(self.loaded.vocabulary, self.loaded.infill_config)

    @property
    def note(self) -> str:
        """A message about the model for the user, if there is one now."""
        return "; ".join(filter(None, (self.loaded.note, self.loaded.adapter.note)))

    def status_fields(self) -> dict[str, Any]:
        """The fields of `messages.Status` that describe the model."""
        names = ("model", "device", "dtype", "note", "context_tokens", "edits")
        fields = {name: getattr(self, name) for name in names}
        fields["ahead_tokens"], fields["ahead_hits"] = self.loaded.adapter.prefill_counts
        if adapter := self._fim_adapter:
            fields |= {"token_ms": adapter.token_ms, "prompt_token_ms": adapter.prompt_token_ms}
        return fields

    @property
    def is_prefill_pending(self) -> bool:
        """Whether the next idle task is a prefill."""
        return self.loaded.adapter.is_prefill_pending

    def infill(self, request: InfillRequest, *, deadline: Deadline | None = None) -> DiffusionRun | FimRun:
        """Starts to work on a request. Raises RequestError."""
        if self.edits:
            raise RequestError(FILLS_NOTHING_MESSAGE)
        if self._fim_adapter is not None:
            return FimRun(self.loaded, request, deadline)
        return DiffusionRun(self.loaded, request, deadline)

    def next_edits(
        self, request: NextEditRequest, *, deadline: Deadline | None = None
    ) -> NextEditJudgeRun | NextEditRewriteRun:
        """Starts to work on a request for next edits."""
        if self.edits:
            return NextEditRewriteRun(self.loaded, self.edits, request, deadline)
        return NextEditJudgeRun(self.loaded, request, deadline)

    def warm_up(self) -> None:
        """Runs small requests, so that the first user does not wait for one-time setup."""
        if self.edits:
            edit_model.warm_up(self.loaded, self.edits)
            return
        self._fill(InfillRequest("warm-up", (PinnedText("x ="), Hole(max_tokens=2), PinnedText("\n")), max_steps=1))
        if not self.run_idle_task():
            return
        for request in warm_up_requests():
            self._fill(request)
        while self.run_idle_task():
            pass

    def run_idle_task(self) -> bool:
        return self.loaded.adapter.run_idle_task()

    def _fill(self, request: InfillRequest) -> None:
        for _ in self.infill(request):
            pass


def warm_up_requests() -> list[InfillRequest]:
    """The most common requests: an automatic line, and a line and a block with three candidates."""
    prefix = PinnedText("import os\n\n\ndef main(path):\n    ")
    suffix = PinnedText("\n" + "    print(path)\n" * 100)
    line = (prefix, Hole(single_line=True), suffix)
    block = (prefix, Hole(kind=HoleKind.BLOCK), suffix)
    return [
        InfillRequest("a line", line, quick=True, seed=0),
        InfillRequest("three lines", line, candidates=3, seed=0),
        InfillRequest("three blocks", block, candidates=3, seed=0),
    ]

"""Answers an edit model's prompt with its region after the rules' next edits, the model's, or a fill at the cursor."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.messages import NextEditRequest
from inference.models.edit_prompts import EditPrompt
from lsp_server.documents.change import minimal_change
from lsp_server.fill.pipeline import FillBudget, fill
from lsp_server.holes import hole_at_cursor
from lsp_server.http.schemas import FimInput, build_document
from lsp_server.next_edit.cross_file import NextEditInput
from lsp_server.next_edit.edit_history import texts_before
from lsp_server.next_edit.edits import NextEdit, nearest_edit
from lsp_server.next_edit.finder import find_next_edits
from lsp_server.next_edit.judge import EditValidator
from lsp_server.next_edit.model_edits import request_edits
from lsp_server.next_edit.service import is_name_half_deleted
from lsp_server.settings.schema import Settings
from lsp_server.settings.worker_options import is_remote
from lsp_server.worker import WorkerClient


@dataclass(frozen=True)
class RegionRewriter:
    """Rewrites regions with the `edit_model`, if there is one, and the `worker` of the model that fills holes."""

    worker: WorkerClient
    edit_model: WorkerClient | None
    settings: Settings

    async def rewrite(self, prompt: EditPrompt, request: NextEditRequest, client: str) -> str:
        """The region's new text; the current one if nothing is wanted. Raises WorkerError."""
        text, cursor = request.text, request.cursor or 0
        document = build_document(FimInput(text[:cursor], text[cursor:], request.path))
        snapshot = await asyncio.to_thread(document.snapshot)
        old_texts = await asyncio.to_thread(texts_before, text, request.hunks, cursor)
        if old_texts and is_name_half_deleted(minimal_change(old_texts[0], text), text, cursor):
            return prompt.current
        edits: Sequence[NextEdit] = await asyncio.to_thread(find_next_edits, snapshot, old_texts)
        if not edits and (self.edit_model or not is_remote(self.worker.options)):
            edit_input = NextEditInput(snapshot, old_texts, cursor, edit_model_hunks=request.hunks)
            model, deadline_ms = self.edit_model or self.worker, self.settings.deadline_ms.invoked
            edits = await request_edits(model, edit_input, lambda _: request.path, deadline_ms)
        if not (edits or self.edit_model) and (span := hole_at_cursor(snapshot, cursor)):
            budget = replace(FillBudget.from_settings(self.settings, invoked=False), endpoint_client=client)
            result = await fill(self.worker, snapshot, [span], budget)
            edits = [NextEdit(span.start, span.end, best.texts[0]) for best in result.candidates[:1]]
        first, last = prompt.start + len(prompt.forced), prompt.start + len(prompt.current)
        inside = [edit for edit in edits if first <= edit.start and edit.end <= last]
        if EditValidator(snapshot).breaks_syntax(inside):
            inside = [edit for edit in inside if edit is nearest_edit(inside, cursor)]
        for edit in sorted(inside, key=lambda edit: -edit.start):
            text = edit.as_text_change(text).apply_to(text)
        return text[prompt.start : last + len(text) - len(request.text)]

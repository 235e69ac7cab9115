"""An editor's part in commands: holds the text, applies edits, shows progress and drafts."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from lsprotocol import types
from lsprotocol.types import Position, Range

from tests.e2e import reference
from tests.e2e.editor import Editor
from tests.workers import PATIENCE_S


class Workbench:
    """An editor, its texts, and what the server has sent. `refuses`: its answer to an edit that it does not apply."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.refuses: str | None = None
        self.edits: list[types.WorkspaceEdit] = []
        self.drafts: list[Any] = []
        self.progress: list[tuple[int | str, Any]] = []
        self._texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self._heard = asyncio.Event()
        for method, handler in {
            types.WORKSPACE_APPLY_EDIT: self._apply,
            types.PROGRESS: self._show_progress,
            "infill/draft": self._show_draft,
        }.items():
            editor.client.protocol.fm.features.pop(method, None)  # what an earlier workbench has registered
            editor.client.feature(method)(partial(handler))  # pygls writes attributes on what it is given

    def open(self, text: str, language: str = "python", name: str = "main.py") -> str:
        uri = self.editor.open(text, language, name)
        self._texts[uri], self._versions[uri] = text, 1
        return uri

    def text(self, uri: str) -> str:
        return self._texts[uri]

    def type(self, uri: str, text: str) -> None:
        self._texts[uri] = text
        self._versions[uri] += 1
        self.editor.change(uri, self._versions[uri], text)

    async def command(self, name: str, *arguments: object, token: str | None = None) -> Any:
        params = types.ExecuteCommandParams(name, list(arguments), work_done_token=token)
        return await self.editor.client.workspace_execute_command_async(params)

    async def fill(self, name: str, uri: str, at: Range, token: str | None = None, **more: object) -> Any:
        return await self.command(f"infill-ls.{name}", {"uri": uri, "range": plain(at), **more}, token=token)

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not happened():
                self._heard.clear()
                await self._heard.wait()

    def stop(self, token: int | str) -> None:
        self.editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))

    def kinds(self, token: int | str) -> list[str]:
        """What was shown under a token: begin, report, …, end."""
        return [value["kind"] for shown, value in self.progress if shown == token]

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.edits.append(params.edit)
        if self.refuses is not None:
            return types.ApplyWorkspaceEditResult(applied=False, failure_reason=self.refuses)
        (uri,) = [uri for uri in self._texts if _is_about(params.edit, uri)]
        for change in params.edit.document_changes or ():
            assert change.text_document.version == self._versions[uri]  # type: ignore[union-attr]
        edits = reference.text_edits(params.edit, uri)
        self.type(uri, reference.applied(self._texts[uri], edits, self.editor.encoding))
        return types.ApplyWorkspaceEditResult(applied=True)

    def _show_progress(self, params: types.ProgressParams) -> None:
        self.progress.append((params.token, params.value))
        self._heard.set()

    def _show_draft(self, params: Any) -> None:
        self.drafts.append(params)
        self._heard.set()


def plain(range_: Range) -> dict[str, Any]:
    first, last = ({"line": at.line, "character": at.character} for at in (range_.start, range_.end))
    return {"start": first, "end": last}


def marked(text: str, piece: str, encoding: str = "utf-16") -> Range:
    at = text.index(piece)
    first, last = (reference.position(text, place, encoding) for place in (at, at + len(piece)))
    return Range(Position(first.line, first.character), Position(last.line, last.character))


def _is_about(edit: types.WorkspaceEdit, uri: str) -> bool:
    changed = [change.text_document.uri for change in edit.document_changes or ()]  # type: ignore[union-attr]
    return uri in changed or uri in (edit.changes or ())

"""What the client can do, read leniently from raw JSON, what the server offers, and edits as this client takes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.holes import HoleSpan
from lsp_server.lsp.protocol import RawPosition, RawRange

COMMAND_PREFIX = "infill-ls."
ACCEPT_COMMAND = f"{COMMAND_PREFIX}didAccept"
PULL_COMMAND = f"{COMMAND_PREFIX}pullModel"
REFINE_SUGGESTION_COMMAND = f"{COMMAND_PREFIX}refineSuggestion"
REPAIR_KIND = "quickfix.infill"
FILL_KIND = "refactor.rewrite.infill"
"""The prefix of our code action kinds, except repairs: editors list `quickfix` as answers to a diagnostic."""


@dataclass(frozen=True)
class ClientCapabilities:
    """What a client supports, and the unit of its columns (`encoding`)."""

    encoding: Encoding = Encoding.UTF16
    versioned_edits: bool = False
    lazy_code_actions: bool = False
    llm_tag: bool = False
    """The client marks code actions that a language model writes."""
    apply_edit: bool = False
    progress: bool = False
    is_neovim: bool = False
    """Neovim keeps lines without their ends, draws a suggestion over the text after the cursor unless its range is
    empty, and inserts it without checking what was typed since. So it gets `\\n`, empty ranges, and the cursor's line
    to compare with.
    """
    is_own_plugin: bool = False
    """The client is our own plugin or extension, which offers models itself."""
    notifications: bool = False
    """The client takes the `infill/` notifications. Others may warn their user of each."""
    drafts: bool = False
    next_edits: bool = False
    inline_completion: bool = False
    markdown: bool = False
    """The client shows the documentation of completions as Markdown."""
    configuration: bool = False
    registers_configuration: bool = False


_FLAGS = {
    "versioned_edits": "workspace.workspaceEdit.documentChanges",
    "apply_edit": "workspace.applyEdit",
    "progress": "window.workDoneProgress",
    "drafts": "experimental.infillDrafts",
    "next_edits": "experimental.infillNextEdits",
    "configuration": "workspace.configuration",
    "registers_configuration": "workspace.didChangeConfiguration.dynamicRegistration",
}


def parse_client_capabilities(capabilities: Any, client: Any = None) -> ClientCapabilities:
    """Parses `capabilities` and `clientInfo` of `initialize`; what is missing or malformed counts as unsupported."""
    action = _value_at(capabilities, "textDocument.codeAction")
    resolves = "edit" in _list_at(action, "resolveSupport.properties")
    is_plugin = _value_at(capabilities, "experimental.infillDrafts") is not None
    return ClientCapabilities(
        **{name: _value_at(capabilities, path) is True for name, path in _FLAGS.items()},
        encoding=_encoding(_list_at(capabilities, "general.positionEncodings")),
        lazy_code_actions=resolves and _value_at(action, "dataSupport") is True,
        llm_tag=types.CodeActionTag.LlmGenerated.value in _list_at(action, "tagSupport.valueSet"),
        is_neovim=_value_at(client, "name") == "Neovim",
        is_own_plugin=is_plugin,
        notifications=is_plugin or _value_at(capabilities, "experimental.infillNotifications") is True,
        inline_completion=_value_at(capabilities, "textDocument.inlineCompletion") is not None,
        markdown="markdown" in _list_at(capabilities, "textDocument.completion.completionItem.documentationFormat"),
    )


def server_capabilities(
    client: ClientCapabilities, commands: Sequence[str] = (), completion: types.CompletionOptions | None = None
) -> types.ServerCapabilities:
    """The server's capabilities. `completion` is None if it offers none."""
    return types.ServerCapabilities(
        position_encoding=client.encoding.value,
        text_document_sync=types.TextDocumentSyncOptions(
            open_close=True, change=types.TextDocumentSyncKind.Incremental, save=types.SaveOptions()
        ),
        notebook_document_sync=types.NotebookDocumentSyncOptions(
            notebook_selector=[types.NotebookDocumentFilterWithNotebook(notebook="*")]
        ),
        workspace=types.WorkspaceOptions(
            workspace_folders=types.WorkspaceFoldersServerCapabilities(supported=True, change_notifications=True)
        ),
        inline_completion_provider=types.InlineCompletionOptions(),
        completion_provider=completion,
        code_action_provider=types.CodeActionOptions(code_action_kinds=[FILL_KIND, REPAIR_KIND], resolve_provider=True),
        execute_command_provider=types.ExecuteCommandOptions(commands=list(commands), work_done_progress=True),
        experimental={"infillStatus": True},
    )


def _encoding(offered: list[Any]) -> Encoding:
    """The first of the client's encodings that we support; UTF-16 if it lists none, as the protocol says."""
    return next((encoding for name in offered for encoding in Encoding if encoding.value == name), Encoding.UTF16)


def _value_at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _list_at(value: Any, path: str) -> list[Any]:
    items = _value_at(value, path)
    return items if isinstance(items, list) else []


def lsp_range(lines: LineIndex, start: int, end: int, encoding: Encoding) -> types.Range:
    first, last = (types.Position(*lines.position(offset, encoding)) for offset in (start, end))
    return types.Range(start=first, end=last)


def offset_of(lines: LineIndex, position: types.Position | RawPosition, encoding: Encoding) -> int:
    """The offset of a position in a text with these lines; one outside the text is clamped."""
    return lines.offset(position.line, position.character, encoding)


def offsets_of(lines: LineIndex, range_: types.Range | RawRange, encoding: Encoding) -> tuple[int, int]:
    """The offsets of a range, smaller one first."""
    first, last = sorted(offset_of(lines, position, encoding) for position in (range_.start, range_.end))
    return first, last


def workspace_edit(
    snapshot: Snapshot, spans: Sequence[HoleSpan], texts: Sequence[str], client: ClientCapabilities
) -> types.WorkspaceEdit:
    """Puts `texts` into the holes `spans`; with the document's version if the client checks it."""
    edits = [
        types.TextEdit(range=lsp_range(snapshot.lines, span.start, span.end, client.encoding), new_text=text)
        for span, text in zip(spans, texts, strict=True)
        if text != snapshot.text[span.start : span.end]
    ]
    if not client.versioned_edits:
        return types.WorkspaceEdit(changes={snapshot.uri: edits})
    document = types.OptionalVersionedTextDocumentIdentifier(uri=snapshot.uri, version=snapshot.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(text_document=document, edits=edits)])

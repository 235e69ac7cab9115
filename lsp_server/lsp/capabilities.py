"""What the client can do, read leniently from raw JSON, and what the server offers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from lsp_server.documents.positions import Encoding

COMMAND_PREFIX = "infill-ls."
"""The prefix of all our command names."""
ACCEPT_COMMAND = f"{COMMAND_PREFIX}didAccept"
PULL_COMMAND = f"{COMMAND_PREFIX}pullModel"
REFINE_SUGGESTION_COMMAND = f"{COMMAND_PREFIX}refineSuggestion"
REPAIR_KIND = "quickfix.infill"
FILL_KIND = "refactor.rewrite.infill"
"""The prefix of our code action kinds, except repairs: editors list `quickfix` as answers to a diagnostic."""


@dataclass(frozen=True)
class ClientFeatures:
    """The client's capabilities that matter to us."""

    encoding: Encoding = Encoding.UTF16
    versioned_edits: bool = False
    lazy_code_actions: bool = False
    llm_tag: bool = False
    """The client marks code actions that a language model writes."""
    apply_edit: bool = False
    progress: bool = False
    is_neovim: bool = False
    """Neovim keeps lines without their ends, draws a suggestion over the text behind the cursor unless its range is
    empty, and inserts it without a look at what was typed since. So it gets `\\n`, empty ranges, and the cursor's line
    to compare with.
    """
    plugin: bool = False
    """The client is our own plugin or extension, which offers models itself."""
    drafts: bool = False
    next_edits: bool = False
    inline_completion: bool = False
    markdown: bool = False
    """The client shows the documentation of completions as Markdown."""
    configuration: bool = False
    registers_configuration: bool = False


def client_features(capabilities: Any, client: Any = None) -> ClientFeatures:
    """Parses `capabilities` and `clientInfo` of the initialize request; anything missing or malformed counts as
    unsupported.
    """
    action = ("textDocument", "codeAction")
    configuration = ("workspace", "didChangeConfiguration")
    resolved = _at(capabilities, *action, "resolveSupport", "properties")
    resolves = isinstance(resolved, list) and "edit" in resolved
    tags = _at(capabilities, *action, "tagSupport", "valueSet")
    formats = _at(capabilities, "textDocument", "completion", "completionItem", "documentationFormat")
    return ClientFeatures(
        encoding=_encoding(_at(capabilities, "general", "positionEncodings")),
        versioned_edits=_at(capabilities, "workspace", "workspaceEdit", "documentChanges") is True,
        lazy_code_actions=resolves and _at(capabilities, *action, "dataSupport") is True,
        llm_tag=isinstance(tags, list) and types.CodeActionTag.LlmGenerated.value in tags,
        apply_edit=_at(capabilities, "workspace", "applyEdit") is True,
        progress=_at(capabilities, "window", "workDoneProgress") is True,
        is_neovim=_at(client, "name") == "Neovim",
        plugin=_at(capabilities, "experimental", "infillDrafts") is not None,
        drafts=_at(capabilities, "experimental", "infillDrafts") is True,
        next_edits=_at(capabilities, "experimental", "infillNextEdits") is True,
        inline_completion=_at(capabilities, "textDocument", "inlineCompletion") is not None,
        markdown=isinstance(formats, list) and "markdown" in formats,
        configuration=_at(capabilities, "workspace", "configuration") is True,
        registers_configuration=_at(capabilities, *configuration, "dynamicRegistration") is True,
    )


def server_capabilities(
    features: ClientFeatures, commands: Sequence[str] = (), completion: types.CompletionOptions | None = None
) -> types.ServerCapabilities:
    """The server's capabilities. `completion` is None if it offers none."""
    return types.ServerCapabilities(
        position_encoding=features.encoding.value,
        text_document_sync=types.TextDocumentSyncOptions(
            open_close=True, change=types.TextDocumentSyncKind.Incremental, save=types.SaveOptions()
        ),
        notebook_document_sync=types.NotebookDocumentSyncOptions(
            notebook_selector=[types.NotebookDocumentFilterWithNotebook(notebook="*")], save=True
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


def _encoding(offered: Any) -> Encoding:
    """The first of the client's encodings that we support; UTF-16 if it lists none, as the protocol says."""
    known = {encoding.value: encoding for encoding in Encoding}
    for name in offered if isinstance(offered, list) else []:
        if isinstance(name, str) and name in known:
            return known[name]
    return Encoding.UTF16


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value

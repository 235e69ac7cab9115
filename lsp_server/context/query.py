"""What context is gathered for, as it stands when a request arrives. Immutable, so that a thread can work on it."""

from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Tree

from lsp_server.settings.schema import Settings


@dataclass(frozen=True)
class Buffer:
    """An open document. `path` is that of its file."""

    path: Path
    language_id: str
    version: int
    text: str


@dataclass(frozen=True)
class ReadableFolder:
    """A folder that may be read in, with all that is below it, and the settings that hold there."""

    root: Path
    settings: Settings


@dataclass(frozen=True)
class ContextQuery:
    """The document, with the cursor's line (from 0), the other open ones, most recently used first, and the places."""

    document: Buffer
    tree: Tree | None
    line: int
    others: tuple[Buffer, ...]
    places: tuple[ReadableFolder, ...]

"""A real folder with files, and the model's view of the documents that are open in it."""

from pathlib import Path

import pytest

from lsp_server.context.gather import Buffer, ContextQuery, Readable, choose
from lsp_server.settings.resolver import Configuration
from lsp_server.syntax.languages import language_of

PATIENT_MS = 60_000
OTHERS = "def parse_invoice(invoice, currency):\n    total = invoice.total\n    return convert(total, currency)\n"


def readable(configuration: Configuration) -> Readable:
    """What the model may see with these settings."""
    return Readable(configuration.roots, configuration.why_unreadable)


class Workspace:
    """A folder with files, and queries about documents in it."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.configuration = Configuration({}, {}, settings, [root.as_uri()])

    def at(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def opened(self, name: str, text: str) -> Buffer:
        """A saved document."""
        self.at(name, text)
        return self.buffer(name, text)

    def query(self, name: str, text: str, *others: Buffer, line: int = 0, max_tokens: int = 10_000) -> ContextQuery:
        """The document with this text, its cursor in `line`, and what else is open."""
        return ContextQuery(self.buffer(name, text), line, others, readable(self.configuration), max_tokens)

    def buffer(self, name: str, text: str) -> Buffer:
        return Buffer(self.root / name, language_of(name), 1, text)

    def shown(self, name: str, text: str, *others: Buffer, line: int = 0) -> dict[str, str]:
        """The pieces by their paths, of files with one piece each."""
        found = choose(self.query(name, text, *others, line=line), None).snippets
        assert len({snippet.path for snippet in found}) == len(found)
        return {snippet.path: snippet.text for snippet in found}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")

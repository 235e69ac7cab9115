"""A real folder with files, and the model's view of documents in it."""

from pathlib import Path

import pytest

from lsp_server.context.file_cache import FileCache, Readable
from lsp_server.context.gather import Buffer, ContextQuery, gather
from lsp_server.settings.resolver import Configuration
from lsp_server.syntax.languages import language_of
from lsp_server.syntax.parsing import parse

PATIENT_MS = 60_000
HELPERS = '''LIMIT = 3

def load(path: str) -> "Config":
    return Config(path)

class Config:
    """All settings."""

    def __init__(self, path):
        self.path = path
''' + "".join(f"\n    def step_{number}(self, x):\n        return x + {number}\n" for number in range(9))
OTHERS = "def parse_invoice(invoice, currency):\n    total = invoice.total\n    return convert(total, currency)\n"


def readable(configuration: Configuration) -> Readable:
    """What the model may see with these settings."""
    return Readable(configuration.roots, configuration.why_unreadable)


class Workspace:
    """A folder with files, and queries about documents in it."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.configuration = Configuration({}, {})
        self.configuration.start(settings, [root.as_uri()])

    def write(self, **files: str) -> None:
        """Write files; in their names `__` stands for a slash and the suffix is .py."""
        for name, text in files.items():
            self.at(name.replace("__", "/") + ".py", text)

    def at(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def query(self, name: str, text: str, *others: Buffer, line: int = 0) -> ContextQuery:
        """The document with this text, its cursor in `line`, and what else is open."""
        document = self.buffer(name, text)
        tree = parse(document.language_id, text)
        return ContextQuery(document, tree, line, others, readable(self.configuration))

    def buffer(self, name: str, text: str) -> Buffer:
        return Buffer(self.root / name, language_of(name), 1, text)

    def shown(self, name: str, text: str, *others: Buffer, line: int = 0) -> dict[str, str]:
        found = list(gather(self.query(name, text, *others, line=line), FileCache()))
        assert len({snippet.path for snippet in found}) == len(found)
        return {snippet.path: snippet.text for snippet in found}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")

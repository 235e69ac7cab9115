"""Imports lead to files, in each language that has import rules."""

from pathlib import Path

import pytest

from lsp_server.syntax.imports import imports_of
from lsp_server.syntax.languages import language_id_of_path
from lsp_server.syntax.parsing import parse

ROWS = (Path(__file__).parent / "fixtures" / "imports.txt").read_text(encoding="utf-8").splitlines()
FILES = {
    **dict.fromkeys(("pkg/__init__.py", "pkg/mod.py", "src/lib/mod.py", "other.py"), "def f(): pass\n"),
    **dict.fromkeys(("lib/mod.ts", "src/app.ts", "packages/ours/src/index.ts"), "export function f(x) { return x }\n"),
    "node_modules/theirs/index.ts": "export function f(x) { return x }\n",
    "lib/index.js": "export default function f() {}\n",
    "include/io.h": "int read_all(int fd);\nstruct point { int x; };\n",
    "src/config.rs": "pub fn load(path: &str) -> u8 {\n    1\n}\n",
    "src/main/java/a/A.java": "package a;\nclass A {\n  int sum(int x) { return x; }\n}\n",
    "lib/tax.rb": "def rate(x)\n  x * 2\nend\n",
    "lua/tax/rate.lua": "function rate(x)\n  return x * 2\nend\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "node_modules/ours").symlink_to("../packages/ours", target_is_directory=True)
    return root


@pytest.mark.parametrize("row", ROWS)
def test_an_import_leads_to_a_file(root: Path, row: str) -> None:
    """A row has the document, a colon, its lines with `\\n` between them, and the file behind the arrow, if any."""
    imports, _, found = row.rpartition(" →")
    document, _, lines = imports.replace("\\n", "\n").partition(": ")
    language_id = language_id_of_path(document)
    followed = set()
    for _, _, paths in imports_of(language_id, parse(language_id, f"{lines}\n"), root / document):
        followed |= {path.resolve() for path in [path for path in map(Path, paths) if path.is_file()][:1]}
    assert (root / found.strip()).resolve() in followed if found else not followed

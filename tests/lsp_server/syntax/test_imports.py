"""Imports lead to files, in each language that has import rules."""

from pathlib import Path

import pytest

from lsp_server.syntax.imports import imports_of
from lsp_server.syntax.languages import language_id_of_path
from lsp_server.syntax.parsing import parse

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


@pytest.mark.parametrize(
    ("document", "line", "found"),
    [
        ("main.py", "from pkg.mod import f", "pkg/mod.py"),
        ("main.py", "from pkg import mod", "pkg/mod.py"),
        ("main.py", "from pkg import f", "pkg/__init__.py"),
        ("main.py", "import pkg.mod, other", "pkg/mod.py"),
        ("main.py", "if TYPE_CHECKING:\n    from pkg.mod import f", "pkg/mod.py"),
        ("pkg/a.py", "from .mod import f", "pkg/mod.py"),
        ("pkg/a.py", "from . import mod", "pkg/mod.py"),
        ("pkg/deep/a.py", "from ..mod import f as g", "pkg/mod.py"),
        ("pkg/deep/a.py", "from .. import f", "pkg/__init__.py"),
        ("pkg/deep/a.py", "from mod import f", "pkg/mod.py"),
        ("tests/test_a.py", "from lib.mod import f", "src/lib/mod.py"),
        ("main.py", "from nowhere.at.all import f", None),
        ("main.py", "from pkg.", None),
        ("main.py", "from . import", None),
        ("main.py", "from ...... import x", None),
        ("a.ts", 'import { f } from "./lib/mod"', "lib/mod.ts"),
        ("a.ts", 'import { f } from "./lib/mod.js"', "lib/mod.ts"),
        ("a.tsx", 'import f from "./lib"', "lib/index.js"),
        ("lib/a.js", "const mod = require('./mod')", "lib/mod.ts"),
        ("lib/a.jsx", 'import * as mod from "../lib/mod"', "lib/mod.ts"),
        ("deep/er/a.ts", 'import { f } from "@/app"', "src/app.ts"),
        ("deep/a.ts", 'import { f } from "lib/mod"', "lib/mod.ts"),
        ("a.ts", 'import { f } from "ours"', "packages/ours/src/index.ts"),
        ("a.ts", 'import { f } from ""', None),
        ("src/a.c", '#include "io.h"\n#include <stdio.h>\n', "include/io.h"),
        ("src/a.cpp", '#include "../include/io.h"\n', "include/io.h"),
        ("src/main.rs", "mod config;\nfn main() {}\n", "src/config.rs"),
        ("src/deep/a.rs", "use crate::config::{load, Other};\n", "src/config.rs"),
        ("src/deep/a.rs", "use crate::config;\n", "src/config.rs"),
        ("src/main/java/b/B.java", "import a.A;\nclass B {}\n", "src/main/java/a/A.java"),
        ("bin/a.rb", 'require_relative "../lib/tax"\nrequire "json"\n', "lib/tax.rb"),
        ("bin/a.rb", 'require "tax"\n', "lib/tax.rb"),
        ("a.lua", 'local tax = require("tax.rate")\n', "lua/tax/rate.lua"),
    ],
)
def test_an_import_leads_to_a_file(root: Path, document: str, line: str, found: str | None) -> None:
    language_id = language_id_of_path(document)
    followed = set()
    for _, _, paths in imports_of(language_id, parse(language_id, f"{line}\n"), root / document):
        followed |= {path.resolve() for path in [path for path in map(Path, paths) if path.is_file()][:1]}
    assert (root / found).resolve() in followed if found else not followed

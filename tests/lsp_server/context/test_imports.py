"""Imports lead to files in the workspace, in each language that has import rules."""

import pytest

from tests.lsp_server.context.conftest import HELPERS, Workspace


def test_an_imported_name_is_shown_as_it_is_defined(workspace: Workspace) -> None:
    workspace.write(helpers=HELPERS)
    shown = workspace.shown("main.py", "from helpers import load, LIMIT\n")
    assert shown == {"helpers.py": 'def load(path: str) -> "Config":\n    return Config(path)\nLIMIT = 3'}


def test_of_a_long_definition_the_signatures_are_shown(workspace: Workspace) -> None:
    workspace.write(helpers=HELPERS)
    text = workspace.shown("main.py", "from helpers import Config\n")["helpers.py"]
    assert text.startswith("class Config: ...\n    def __init__(self, path): ...\n    def step_0(self, x): ...")
    assert "return" not in text


def test_of_a_module_as_a_whole_all_signatures_are_shown(workspace: Workspace) -> None:
    workspace.write(pkg__helpers=HELPERS)
    text = workspace.shown("main.py", "import pkg.helpers as h\n")["pkg/helpers.py"]
    assert text == 'LIMIT = 3\ndef load(path: str) -> "Config": ...\nclass Config: ...'


@pytest.mark.parametrize(
    ("document", "line", "found"),
    [
        ("main.py", "from pkg.mod import f", "pkg/mod.py"),
        ("main.py", "from pkg import mod", "pkg/mod.py"),
        ("main.py", "from pkg import f", "pkg/mod.py"),
        ("main.py", "import pkg.mod, other", "pkg/mod.py"),
        ("main.py", "if TYPE_CHECKING:\n    from pkg.mod import f", "pkg/mod.py"),
        ("pkg/a.py", "from .mod import f", "pkg/mod.py"),
        ("pkg/a.py", "from . import mod", "pkg/mod.py"),
        ("pkg/deep/a.py", "from ..mod import f as g", "pkg/mod.py"),
        ("pkg/deep/a.py", "from .. import f", "pkg/mod.py"),
        ("pkg/deep/a.py", "from mod import f", "pkg/mod.py"),
        ("tests/test_a.py", "from lib.mod import f", "src/lib/mod.py"),
        ("main.py", "from nowhere.at.all import f", None),
        ("main.py", "from pkg.", None),
        ("main.py", "from . import", None),
        ("main.py", "from ...... import x", None),
    ],
)
def test_python_imports_are_found(workspace: Workspace, document: str, line: str, found: str | None) -> None:
    workspace.at("pkg/__init__.py", "from pkg.mod import f\n")
    workspace.write(pkg__mod="def f(): pass\n", src__lib__mod="def f(): pass\n", other="")
    assert set(workspace.shown(document, f"{line}\n")) == ({found} if found else set())


@pytest.mark.parametrize(
    ("document", "line", "found"),
    [
        ("a.ts", 'import { f } from "./lib/mod"', "lib/mod.ts"),
        ("a.ts", 'import { f } from "./lib/mod.js"', "lib/mod.ts"),
        ("a.tsx", 'import f from "./lib"', "lib/index.js"),
        ("lib/a.js", "const mod = require('./mod')", "lib/mod.ts"),
        ("lib/a.jsx", 'import * as mod from "../lib/mod"', "lib/mod.ts"),
        ("deep/er/a.ts", 'import { f } from "@/app"', "src/app.ts"),
        ("deep/a.ts", 'import { f } from "lib/mod"', "lib/mod.ts"),
        ("a.ts", 'import { f } from "ours"', "packages/ours/src/index.ts"),
        ("a.ts", 'import { f } from "theirs"', None),
        ("a.ts", 'import "../../../etc/passwd"', None),
        ("a.ts", 'import { f } from ""', None),
    ],
)
def test_javascript_imports_are_found(workspace: Workspace, document: str, line: str, found: str | None) -> None:
    for name in ("lib/mod.ts", "src/app.ts", "packages/ours/src/index.ts", "node_modules/theirs/index.ts"):
        workspace.at(name, "export function f(x) { return x }\n")
    workspace.at("lib/index.js", "export default function f() {}\n")
    (workspace.root / "node_modules/ours").symlink_to("../packages/ours", target_is_directory=True)
    assert set(workspace.shown(document, f"{line}\n")) == ({found} if found else set())


@pytest.mark.parametrize(
    ("document", "text", "found", "part"),
    [
        ("src/a.c", '#include "io.h"\n#include <stdio.h>\n', "include/io.h", "int read_all(int fd);"),
        ("src/a.cpp", '#include "../include/io.h"\n', "include/io.h", "int read_all(int fd);"),
        ("src/main.rs", "mod config;\nfn main() {}\n", "src/config.rs", "pub fn load(path: &str)"),
        ("src/deep/a.rs", "use crate::config::{load, Other};\n", "src/config.rs", "pub fn load(path: &str)"),
        ("src/deep/a.rs", "use crate::config;\n", "src/config.rs", "pub fn load(path: &str)"),
        ("src/main/java/b/B.java", "import a.A;\nclass B {}\n", "src/main/java/a/A.java", "  int sum(int x)"),
        ("bin/a.rb", 'require_relative "../lib/tax"\nrequire "json"\n', "lib/tax.rb", "def rate(x)"),
        ("bin/a.rb", 'require "tax"\n', "lib/tax.rb", "def rate(x)"),
        ("a.lua", 'local tax = require("tax.rate")\n', "lua/tax/rate.lua", "function rate(x)"),
    ],
)
def test_other_languages_imports_count(workspace: Workspace, document: str, text: str, found: str, part: str) -> None:
    workspace.at("include/io.h", "int read_all(int fd);\nstruct point { int x; };\n")
    workspace.at("src/config.rs", "pub fn load(path: &str) -> u8 {\n    1\n}\n")
    workspace.at("src/main/java/a/A.java", "package a;\nclass A {\n  int sum(int x) { return x; }\n}\n")
    workspace.at("lib/tax.rb", "def rate(x)\n  x * 2\nend\n")
    workspace.at("lua/tax/rate.lua", "function rate(x)\n  return x * 2\nend\n")
    shown = workspace.shown(document, text)
    assert list(shown) == [found]
    assert part in shown[found]


def test_what_is_not_saved_counts_in_an_imported_file_too(workspace: Workspace) -> None:
    workspace.write(helpers="def load(): pass\n")
    unsaved = workspace.buffer("helpers.py", "def load(path, strict): pass\n")
    assert workspace.shown("main.py", "from helpers import load\n", unsaved)["helpers.py"] == unsaved.text.rstrip()

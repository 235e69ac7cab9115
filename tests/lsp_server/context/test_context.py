"""What of other files the model is shown: real files in a workspace, some of which it must never see."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from inference.messages import Snippet
from lsp_server.context import Buffer, ContextQuery, ContextSource, ReadableFolder
from lsp_server.context.file_cache import FileCache, TooLate
from lsp_server.context.gather import gather
from lsp_server.context.provider import MAX_UNFINISHED
from lsp_server.context.similar import likeness
from lsp_server.context.tokens import tokens, within
from lsp_server.settings.schema import Settings
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


class Workspace:
    """A folder with files, and questions about documents in it."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.places = (ReadableFolder(root, settings or Settings()),)

    def write(self, **files: str) -> None:
        """Write files; in their names `__` stands for a slash and the suffix is .py."""
        for name, text in files.items():
            self.at(name.replace("__", "/") + ".py", text)

    def at(self, name: str, text: str) -> Path:
        """Write one file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def question(self, name: str, text: str, *others: Buffer, line: int = 0) -> ContextQuery:
        """The document with this text, its cursor in `line`, and what else is open."""
        document = self.buffer(name, text)
        tree = parse(document.language_id, text)
        return ContextQuery(document, tree, line, others, self.places)

    def buffer(self, name: str, text: str) -> Buffer:
        """An open document."""
        path = self.root / name
        return Buffer(path, language_of(name), 1, text)

    def shown(self, name: str, text: str, *others: Buffer, line: int = 0) -> dict[str, str]:
        """The text of each file that is shown for a document."""
        found = list(gather(self.question(name, text, *others, line=line), FileCache()))
        assert len({snippet.path for snippet in found}) == len(found)
        return {snippet.path: snippet.text for snippet in found}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")


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
    ("document", "text", "found", "said"),
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
def test_other_languages_imports_are_found(
    workspace: Workspace, document: str, text: str, found: str, said: str
) -> None:
    workspace.at("include/io.h", "int read_all(int fd);\nstruct point { int x; };\n")
    workspace.at("src/config.rs", "pub fn load(path: &str) -> u8 {\n    1\n}\n")
    workspace.at("src/main/java/a/A.java", "package a;\nclass A {\n  int sum(int x) { return x; }\n}\n")
    workspace.at("lib/tax.rb", "def rate(x)\n  x * 2\nend\n")
    workspace.at("lua/tax/rate.lua", "function rate(x)\n  return x * 2\nend\n")
    shown = workspace.shown(document, text)
    assert list(shown) == [found]
    assert said in shown[found]


def test_what_is_not_saved_counts_in_an_imported_file_too(workspace: Workspace) -> None:
    workspace.write(helpers="def load(): pass\n")
    unsaved = workspace.buffer("helpers.py", "def load(path, strict): pass\n")
    assert workspace.shown("main.py", "from helpers import load\n", unsaved)["helpers.py"] == unsaved.text.rstrip()


def test_of_an_open_document_the_lines_most_like_those_at_the_cursor_are_shown(workspace: Workspace) -> None:
    far = "\n".join(f"unrelated_{number} = {number}" for number in range(200))
    other = workspace.buffer("billing.py", f"{far}\n{OTHERS}{far}\n")
    workspace.at("billing.py", "")
    text = workspace.shown("main.py", "def bill(invoice, currency):\n    total = \n", other)["billing.py"]
    assert "parse_invoice" in text
    assert text.count("\n") <= 41
    assert workspace.shown("main.py", "import antigravity\n", other) == {}


def test_same_language_comes_first_then_what_was_used_last(workspace: Workspace) -> None:
    others = [workspace.buffer(name, OTHERS) for name in ("a.txt", "b.py", "c.txt", "d.py")]
    for buffer in others:
        workspace.at(buffer.path.name, "")
    assert list(workspace.shown("main.py", OTHERS, *others)) == ["b.py", "d.py", "a.txt", "c.txt"]


def test_a_workspace_behind_a_link_is_read_like_any_other(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write(helpers="def load(): pass\n", billing=OTHERS)
    (tmp_path / "link").symlink_to(workspace.root, target_is_directory=True)
    linked = Workspace(tmp_path / "link")
    others = linked.buffer("helpers.py", "def load(new): pass\n"), linked.buffer("billing.py", OTHERS)
    shown = linked.shown("main.py", f"import helpers\n{OTHERS}", *others)
    assert shown == {"helpers.py": "def load(new): pass", "billing.py": OTHERS}


def test_what_utf_8_cannot_hold_is_replaced(workspace: Workspace) -> None:
    workspace.write(billing="")
    other = workspace.buffer("billing.py", f"half = '\ud83d'\n{OTHERS}")
    text = workspace.shown("main.py", OTHERS, other)["billing.py"]
    assert text == f"half = '\ufffd'\n{OTHERS}"


def test_likeness_counts_what_both_have_against_what_there_is() -> None:
    assert likeness(frozenset("abc"), frozenset("bcd")) == 0.5
    assert likeness(frozenset(), frozenset()) == 0.0


# --- What must never be shown ---------------------------------------------------------------------------------------


def test_secret_and_switched_off_files_are_never_shown(tmp_path: Path) -> None:
    off = msgspec.structs.replace(Settings(), disabled_globs=("gen_*",), secret_globs=("private/*",))
    workspace = Workspace(tmp_path / "work", off)
    names = ("gen_a", "private/key", "ok")
    for name in names:
        workspace.at(f"{name}.py", OTHERS)
    workspace.at("secrets.json", OTHERS)
    others = [workspace.buffer(name, OTHERS) for name in ("gen_a.py", "private/key.py", "secrets.json", "ok.py")]
    imports = "import gen_a\nimport private.key\nimport ok\n"
    assert set(workspace.shown("main.py", imports + OTHERS, *others)) == {"ok.py"}


def test_languages_that_are_off_are_not_shown(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, msgspec.structs.replace(Settings(), disabled_languages=("python",)))
    workspace.write(ok=OTHERS)
    script = replace(workspace.buffer("script", OTHERS), language_id="python")
    workspace.at("script", "")
    assert workspace.shown("main.ts", OTHERS, workspace.buffer("ok.py", OTHERS), script) == {}


def test_no_link_leads_out_of_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    outside = Workspace(tmp_path / "outside")
    secret = outside.at("secret.py", OTHERS)
    workspace.at("key.pem", OTHERS)
    (workspace.root / "linked.py").symlink_to(secret)
    (workspace.root / "folder").symlink_to(outside.root, target_is_directory=True)
    (workspace.root / "disguised.py").symlink_to("key.pem")
    (workspace.root / "loop.py").symlink_to("loop.py")
    workspace.write(real="def inside(): pass\n")
    (workspace.root / "alias.py").symlink_to("real.py")
    imports = (
        "import linked, folder.secret, disguised, loop, alias\nfrom .. import outside\nfrom ..outside import secret\n"
    )
    others = [workspace.buffer(name, OTHERS) for name in ("linked.py", "folder/secret.py", "disguised.py")]
    assert workspace.shown("main.py", imports + OTHERS, *others) == {"real.py": "def inside(): pass"}


def test_other_folders_with_a_similar_name_are_outside(workspace: Workspace, tmp_path: Path) -> None:
    Workspace(tmp_path / "workshop").write(mod=OTHERS)
    near = Buffer(tmp_path / "workshop" / "mod.py", "python", 1, OTHERS)
    assert workspace.shown("main.py", OTHERS, near) == {}


def test_without_a_workspace_nothing_is_read(workspace: Workspace) -> None:
    workspace.write(helpers=HELPERS)
    question = replace(workspace.question("main.py", "import helpers\n"), places=())
    assert list(gather(question, FileCache())) == []


async def test_a_pipe_a_huge_and_a_binary_file_are_passed_over(workspace: Workspace) -> None:
    """The pipe has no writer: whoever opens it to read waits for ever."""
    os.mkfifo(workspace.root / "pipe.py")
    workspace.write(huge="x = 1\n" * 40_000, binary="x = '\0'\n", good="def good(): pass\n")
    (workspace.root / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))
    question = workspace.question("main.py", "import pipe, huge, binary, latin, good\n")
    found = await ContextSource().gather(question, 1_000, PATIENT_MS)
    assert found == (Snippet("good.py", "def good(): pass"),)


# --- Limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [64, 200, 1_000])
async def test_the_budget_is_kept(workspace: Workspace, budget: int) -> None:
    workspace.write(**{f"mod_{number}": HELPERS for number in range(20)})
    names = "\n".join(f"from mod_{number} import load, Config" for number in range(20))
    found = await ContextSource().gather(workspace.question("main.py", names), budget, PATIENT_MS)
    used = sum(tokens(snippet.path) + tokens(snippet.text) for snippet in found)
    assert used <= budget
    assert len(found) >= (budget > 200)


def test_a_snippet_that_does_not_fit_makes_room_for_a_smaller_one() -> None:
    snippets = [Snippet("a", "x" * 30), Snippet("b", "x" * 300), Snippet("c", "x" * 30)]
    assert [snippet.path for snippet in within(snippets, 30)] == ["a", "c"]


def test_tokens_are_rather_overestimated() -> None:
    assert tokens("x" * 300) == 100
    assert tokens("日本語") == 3


def test_nothing_more_is_read_when_nobody_waits(workspace: Workspace) -> None:
    workspace.write(helpers=HELPERS)
    library = FileCache()
    library.until = 0.0
    with pytest.raises(TooLate):
        list(gather(workspace.question("main.py", "import helpers\n"), library))


async def test_a_request_takes_what_there_is_when_its_time_is_up(workspace: Workspace) -> None:
    """Forty files take longer than a millisecond; what is not done by then is there for the next request."""
    workspace.write(**{f"mod_{number}": HELPERS for number in range(40)})
    names = "".join(f"import mod_{number}\n" for number in range(40))
    source, question = ContextSource(), workspace.question("main.py", names)
    assert len(await source.gather(question, 65_536, 1)) < 40
    assert len(await source.gather(question, 65_536, PATIENT_MS)) == 40


async def test_questions_do_not_pile_up_while_files_cannot_be_read(workspace: Workspace) -> None:
    """As on a network drive that is gone: each of them holds the text of every open document."""
    source, drive_is_back = ContextSource(), threading.Event()
    source._threads.submit(drive_is_back.wait)
    workspace.write(helpers=HELPERS)
    question = workspace.question("main.py", "import helpers\n")
    for _ in range(20):
        assert await source.gather(question, 1_000, 1) == ()
    assert source._threads._work_queue.qsize() == MAX_UNFINISHED
    drive_is_back.set()
    while not await source.gather(question, 1_000, PATIENT_MS):
        await asyncio.sleep(0.01)


async def test_a_file_is_read_again_when_it_has_changed(workspace: Workspace) -> None:
    source = ContextSource()
    path = workspace.at("helpers.py", "def load(): pass\n")
    question = workspace.question("main.py", "from helpers import load\n")
    assert (await source.gather(question, 1_000, PATIENT_MS))[0].text == "def load(): pass"
    path.write_text("def load(again): pass\n")
    assert (await source.gather(question, 1_000, PATIENT_MS))[0].text == "def load(again): pass"
    path.unlink()
    assert await source.gather(question, 1_000, PATIENT_MS) == ()


def test_typing_does_not_change_what_is_shown(workspace: Workspace) -> None:
    """Or the model would read its prompt anew with every key."""
    workspace.write(helpers=HELPERS, billing=OTHERS)
    other = workspace.buffer("billing.py", OTHERS)
    texts = [f"from helpers import load\n{OTHERS}x = {'call(arg)'[:length]}" for length in range(9)]
    found = [workspace.shown("main.py", text, other, line=4) for text in texts]
    assert all(shown == found[0] for shown in found)
    assert len(found[0]) == 2

"""Language tables are true: their grammars are installed, have the kinds they name, and are loaded on first use."""

import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tree_sitter import Language, Query

from lsp_server.syntax import languages
from lsp_server.syntax.languages import TABLES, LanguageTable, name_comment, resolve_language_id
from lsp_server.syntax.parsing import parse

FIXTURES = Path(__file__).parents[1] / "holes" / "fixtures"
REGEXES = ("string_pattern", "opening", "empty", "fillers", "body_fillers", "empty_on_purpose", "abstract")
BY_ID = [pytest.param(table, id=table.ids[0]) for table in TABLES]


def grammar_of(table: LanguageTable) -> Language:
    grammar = languages.grammar_of(table.ids[0])
    assert grammar is not None, "the grammar is a dependency of the package"
    return grammar


@pytest.mark.parametrize("table", BY_ID)
def test_a_table_names_what_its_grammar_has(table: LanguageTable) -> None:
    grammar = grammar_of(table)
    kinds = {grammar.node_kind_for_id(number) for number in range(grammar.node_kind_count)}
    for field in fields(table):
        named = getattr(table, field.name)
        if isinstance(named, frozenset) and field.name != "operand_ends":
            assert named <= kinds, field.name
    assert table.closures <= table.functions
    assert (FIXTURES / f"{table.ids[0]}.txt").is_file()
    for name in REGEXES:
        re.compile(getattr(table, name))
    assert re.compile(table.string_pattern).groups == 0, "the scanner of texts has groups of its own"
    if table.imports is not None:
        query = Query(grammar, table.imports.query)
        assert "module" in {query.capture_name(number) for number in range(query.capture_count)}
    assert {languages.table_of(name) for name in table.ids} == {table}
    assert {id(languages.grammar_of(name)) for name in table.ids} == {id(grammar)}


def test_no_id_and_no_extension_belongs_to_two_languages() -> None:
    for named in ([table.ids + table.aliases for table in TABLES], [table.extensions for table in TABLES]):
        flat = [name for names in named for name in names]
        assert len(flat) == len(set(flat))


@pytest.mark.parametrize(
    ("path", "language_id"),
    [
        *(("a.py", "python"), ("dir.x/B.PYI", "python"), ("a.tsx", "typescriptreact"), ("a.d.ts", "typescript")),
        *(("x/Rakefile", "ruby"), (".bashrc", "shellscript"), ("a.unknown", ""), ("py", ""), ("", ""), (".py", "")),
    ],
)
def test_a_language_is_known_by_the_name_of_a_file(path: str, language_id: str) -> None:
    assert languages.language_id_of_path(path) == language_id


@pytest.mark.parametrize(
    ("language_id", "name", "expected"),
    [
        *(("js", "a.js", "javascript"), ("js", "a.json", "json"), ("js-mode", "", "javascript")),
        *(
            ("javascript.jsx", "a.jsx", "jsx"),
            ("typescript.tsx", "a.tsx", "tsx"),
            ("TypeScript TSX", "", "typescriptreact"),
        ),
        *(("gfm", "README", "markdown"), ("mhtml", "a.html", "html"), ("js-json", "a", "json"), ("yml", "a", "yaml")),
        *(("conf-toml", "a", "toml"), ("rjsx", "a", "javascript"), ("enh-ruby", "a", "ruby"), ("rs", "", "rust")),
        *(("golang", "a", "go"), ("c_cpp", "a.c", "c"), ("c_cpp", "a.cpp", "cpp"), ("c_cpp", "", "cpp")),
        *(("Python", "a", "python"), ("python-ts-mode", "a", "python"), ("yaml.ansible", "a", "yaml")),
        *(("source.python", "a", "python"), ("text.html.basic", "a", "html"), ("Shell Script", "a", "shellscript")),
        *(
            ("text", "a.py", "python"),
            ("plaintext", "a.rs", "rust"),
            ("", "a.go", "go"),
            ("fundamental", "a.ts", "typescript"),
        ),
        *(
            ("python", "a.js", "python"),
            ("sh", "a.py", "sh"),
            ("kotlin", "a.kt", "kotlin"),
            ("", "a", ""),
            ("text", "a", "text"),
        ),
    ],
)
def test_any_editors_id_leads_to_a_language(language_id: str, name: str, expected: str) -> None:
    """A known id wins over the file's name, which wins over an id of another editor."""
    assert languages.resolve_language_id(language_id, f"/p/{name}") == expected


def test_a_grammar_is_loaded_when_its_language_is_first_used() -> None:
    code = """
import sys
from lsp_server.syntax.parsing import Source
print(*[name for name in sys.modules if name.startswith("tree_sitter_")])
Source.parse("rust", "fn f() {}")
print(*[name for name in sys.modules if name.startswith("tree_sitter_")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = done.stdout.split("\n")[:2]
    assert before == ""
    assert set(after.split()) == {"tree_sitter_rust", "tree_sitter_rust._binding"}


@pytest.mark.parametrize("grammar", ["tree_sitter_klingon:language", "tree_sitter_python:klingon"])
def test_a_grammar_that_is_not_installed_is_none(grammar: str) -> None:
    assert languages.load_grammar(replace(languages.table_of("python"), grammar=grammar).grammar) is None


@pytest.mark.parametrize(
    ("language_id", "name", "comment"),
    [
        ("python", "main.py", "# main.py\n"),
        ("typescriptreact", "App.tsx", "// App.tsx\n"),
        ("php", "index.php", "// index.php\n"),
        ("lua", "init.lua", "-- init.lua\n"),
        ("css", "style.css", "/* style.css */\n"),
        ("html", "index.html", "<!-- index.html -->\n"),
        ("cpp", "a.h", "// a.h (cpp)\n"),
        ("python", "Untitled-1", "# Untitled-1 (python)\n"),
        ("python", "", "# (python)\n"),
        ("shellscript", "a\nrm -rf\u2028.sh", "# arm -rf.sh\n"),
        ("kotlin", "Main.kt", "// Main.kt\n"),
        ("", "Main.kt", "// Main.kt\n"),
        ("haskell", "main.hs", "-- main.hs\n"),
        ("clojure", "core.clj", "; core.clj\n"),
        ("ocaml", "a.ml", "(* a.ml *)\n"),
        ("vue", "App.vue", "<!-- App.vue -->\n"),
        ("dockerfile", "Dockerfile", "# Dockerfile (dockerfile)\n"),
        ("perl", "app.pl", "# app.pl\n"),
        ("json", "package.json", ""),
        ("markdown", "README.md", ""),
        ("plaintext", "notes.txt", ""),
        ("plaintext", "Untitled-1", ""),
        ("", "", ""),
    ],
)
def test_a_comment_tells_a_name_and_its_language(language_id: str, name: str, comment: str) -> None:
    assert name_comment(language_id, name) == comment


@pytest.mark.parametrize("table", BY_ID)
def test_a_comment_with_a_name_is_one_in_the_language(table: LanguageTable) -> None:
    name = f"a{table.extensions[0]}"
    comment = name_comment(resolve_language_id("", name), name)
    tree = parse(table.ids[0], comment)
    assert comment == "" or (tree and {each.type for each in tree.root_node.children} <= table.comments | {"text"})

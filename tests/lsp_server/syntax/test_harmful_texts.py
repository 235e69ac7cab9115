"""Texts that would crash the server or exhaust its memory get no tree. Parsed in a process under a limit."""

import subprocess
import sys

import pytest

from lsp_server.syntax.parsing import parse

LIMIT_S = 120
CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1500 << 20, 1500 << 20))
from lsp_server.documents.document import Document, Edit
from lsp_server.documents.positions import Encoding
language, around, piece, count = sys.argv[1], *map(str.encode, sys.argv[2:4]), int(sys.argv[4])
around, piece = (part.decode("unicode_escape") for part in (around, piece))
bad = piece * count
for text in (bad, around * 500 + bad, bad + "\\n" + around * 500):
    Document("file:///a", language, 1, text).snapshot()
edited = Document("file:///a", language, 1, around * 500)
assert edited.snapshot().tree is not None
edited.apply([Edit((100, 0), (100, 0), bad)], 2, Encoding.UTF16)
edited.snapshot()
edited.apply([Edit((100, 0), (100 + bad.count("\\n"), 0 if "\\n" in bad else len(bad)), "")], 3, Encoding.UTF16)
assert edited.snapshot().tree is not None
print("survived")
"""


@pytest.mark.parametrize(
    ("language", "around", "pieces"),
    [
        ("yaml", "a: 1\\n", ["- ", "? ", ": ", "-\\t", "- ? : "]),
        ("typescript", "let a = 1;\\n", ["x = ???\\n", "a<", "A<B, "]),
        ("typescriptreact", "let a = 1;\\n", ["x = ???\\n", "A<B, "]),
        ("rust", "fn f() {}\\n", ["%w(", "%w(\\n"]),
        ("java", "class A {}\\n", ["%w(", "a => ", "(a) => ", "a<"]),
        ("c", "int a;\\n", ["%w(", "a => "]),
        ("cpp", "int a;\\n", ["%w("]),
        ("csharp", "class A {}\\n", ["%w(", "<a ", "a<", "<a\\n"]),
    ],
)
def test_the_process_survives(language: str, around: str, pieces: list[str]) -> None:
    for piece in pieces:
        words = [sys.executable, "-c", CHILD, language, around, piece, "8000"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.stdout == "survived\n", (piece, done.returncode, done.stderr[-300:])


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("java", "class A { Map<String, List<B<C>>> a = f(g(h(1))); }\n"),
        ("csharp", "class A { Func<int, List<B>> a = x => x < 1 || x < 2; }\n"),
        ("c", "int f(int a) { return g((a) + (1)) < 2 && a < 3; } /* => */\n"),
        ("typescript", "const f = (a: A<B, C>) => a ?? b ? c < d : e;\n"),
        ("rust", "fn f(a: A<B>) -> C { match a { (b, (c)) => g(h(b)) } }\n"),
        ("yaml", "a:\n  - b: [c, {d: e}]\n  - ? f\n    : g\n"),
    ],
)
def test_ordinary_code_gets_its_tree_however_long_it_is(language: str, text: str) -> None:
    assert parse(language, text * 400) is not None

"""Which texts get a tree: none too long or harmful. A line typed in a long file has the holes it would have alone."""

import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server import holes
from lsp_server.syntax import parsing
from lsp_server.syntax.parsing import ByteOffsets, Source, parse, replace_lone_surrogates
from tests.lsp_server.long_files import TEMPLATES, TYPED, long_file, typing
from tests.lsp_server.texts import texts


def test_a_text_that_is_too_long_gets_no_tree() -> None:
    longest = "#" * parsing.MAX_PARSED_CHARACTERS
    assert parsing.parse("python", longest) is not None
    assert parsing.parse("python", longest + "#") is None


def test_a_parsed_text_is_freed() -> None:
    text = "x = 1\n" * 10_000
    tracemalloc.start()
    assert all(parse("python", text) for _ in range(10))
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < len(text)


def test_lone_surrogate_is_replaced() -> None:
    text = "x = '\ud83d'"
    assert Source.parse("python", text).tree is not None
    assert replace_lone_surrogates(text) == "x = '\ufffd'"
    assert replace_lone_surrogates("x = '😀'") == "x = '😀'"


@given(text=texts, repeat=st.sampled_from([1, 400]))
def test_every_offset_comes_back_from_its_byte(text: str, repeat: int) -> None:
    text *= repeat
    offsets = ByteOffsets(text)
    for offset in {0, len(text) // 3, len(text) // 2, max(len(text) - 1, 0), len(text), 2048 % (len(text) + 1)}:
        byte = len(text[:offset].encode("utf-8", "replace"))
        assert offsets.byte_at(offset) == byte
        assert offsets.offset_at(byte) == offset


@pytest.mark.parametrize("length", [2047, 2048, 2049, 4096])
def test_the_end_of_a_text_is_found_at_the_edge_of_a_chunk(length: int) -> None:
    offsets = ByteOffsets("é" * length)
    assert offsets.offset_at(offsets.byte_at(length)) == length


LIMIT_S = 120
CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1500 << 20, 1500 << 20))
from lsp_server.documents.document import ContentChange, Document
from lsp_server.documents.positions import Encoding
language, around, piece, count = sys.argv[1], *map(str.encode, sys.argv[2:4]), int(sys.argv[4])
around, piece = (part.decode("unicode_escape") for part in (around, piece))
bad = piece * count
for text in (bad, around * 500 + bad, bad + "\\n" + around * 500):
    Document("file:///a", language, 1, text).snapshot()
edited = Document("file:///a", language, 1, around * 500)
assert edited.snapshot().tree is not None
edited.apply([ContentChange((100, 0), (100, 0), bad)], 2, Encoding.UTF16)
edited.snapshot()
end = 100 + bad.count("\\n"), 0 if "\\n" in bad else len(bad)
edited.apply([ContentChange((100, 0), end, "")], 3, Encoding.UTF16)
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


def moved(span: holes.HoleSpan | None, by: int) -> holes.HoleSpan | None:
    return span and holes.HoleSpan(span.start + by, span.end + by, span.kind, span.starts_with, span.single_line)


STRING = ' + f("a (b", [c.d - 1])'  # not in Rust, where an open string goes on below


@pytest.mark.parametrize(
    ("language_id", "typed"), [*((name, TYPED) for name in TEMPLATES), ("python", STRING), ("typescript", STRING)]
)
def test_the_holes_of_a_long_file_are_those_of_a_short_one(language_id: str, typed: str) -> None:
    long, short = long_file(language_id), long_file(language_id, lines=1)
    for (snapshot, offset), (other, at) in zip(typing(long, typed), typing(short, typed), strict=True):
        assert holes.hole_at_cursor(snapshot, offset) == moved(holes.hole_at_cursor(other, at), offset - at)


def test_lines_that_end_with_a_carriage_return_alone_are_lines() -> None:
    text = "def f(a):\n    if a:\n        return 1\n    return 2\n\n\nf(1)\n"
    plain, old = (Source.parse("python", each).tree for each in (text, text.replace("\n", "\r")))
    assert plain is not None and old is not None
    assert str(old.root_node) == str(plain.root_node)

"""While the user types a line of a long file, its tree stays intact, and parsing stays fast."""

import pytest

from lsp_server import carve
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.parsing import missing_before, parse
from tests.lsp_server.long_files import TEMPLATES, TYPED, LongFile, long_file, typing

BY_LANGUAGE = pytest.mark.parametrize("language_id", TEMPLATES)


def moved(span: carve.Span | None, by: int) -> carve.Span | None:
    return span and carve.Span(span.start + by, span.end + by, span.kind, span.starts_with, span.single_line)


STRING = ' + f("a (b", [c.d - 1])'  # not in Rust, where an open string goes on below


@pytest.mark.parametrize(
    ("language_id", "typed"), [*((name, TYPED) for name in TEMPLATES), ("python", STRING), ("typescript", STRING)]
)
def test_the_holes_of_a_long_file_are_those_of_a_short_one(language_id: str, typed: str) -> None:
    long, short = long_file(language_id), long_file(language_id, lines=1)
    for (snapshot, offset), (other, at) in zip(typing(long, typed), typing(short, typed), strict=True):
        assert carve.at_cursor(snapshot, offset) == moved(carve.at_cursor(other, at), offset - at)


@BY_LANGUAGE
def test_missing_syntax_has_no_width(language_id: str) -> None:
    (snapshot, offset) = list(typing(long_file(language_id), TYPED[: TYPED.index("second")]))[-1]
    assert not snapshot.tree.root_node.has_error
    assert snapshot.tree.root_node.end_byte == len(snapshot.text)
    last, begin = snapshot.text.rindex("total"), snapshot.text.rindex("\n\n") + 2
    assert carve.function_around(snapshot, last, last) == (begin, len(snapshot.text.rstrip()))


def test_a_call_of_several_lines_is_left_as_it_is() -> None:
    file = long_file("python")
    text = file.text[: file.offset] + " + f(\n        a,\n        b,\n    )" + file.text[file.offset :]
    *_, (snapshot, _) = typing(LongFile("python", text, text.index("f(\n") + 2), "c, ")
    fresh = parse("python", snapshot.text)
    assert str(snapshot.tree.root_node) == str(fresh.root_node)


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        *(("f(a, [b‸", "])"), ("f(a, [b‸)", "]"), ("f(‸)", ""), ("x = ‸", "x"), ("x = f(a +‸", "x)"), ("x = 1‸", "")),
        *(('f("a(b‸', '")'), ("f(['a‸)", "']"), ('f("a")‸', ""), ("# isn't‸", "")),
        *(('f("(", ‸', "x)"), ("if a {‸", "}"), ("f() # (‸", ""), ("x.‸", "x"), ("‸", ""), ("a\nb(‸\nc)", ")")),
    ],
)
def test_what_is_missing_is_what_would_end_the_expression(line: str, missing: str) -> None:
    before, _, after = line.partition("‸")
    assert missing_before(before + after, len(before), table_of("python")) == missing

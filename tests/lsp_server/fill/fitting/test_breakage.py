"""Candidates keep the worker's order, except that those that newly break the parse come last."""

import pytest

from lsp_server import carve
from lsp_server.fill import fitting
from lsp_server.syntax.parsing import Source


def order(text: str, *candidates: tuple[str, ...], language_id: str = "python") -> list[int]:
    source = Source.parse(language_id, text)
    return fitting.order(source, carve.markers(source), candidates)


@pytest.mark.parametrize(
    ("language_id", "text", "candidates", "wanted"),
    [
        pytest.param("python", "x = ???\n", ["1 +", "1", "(", "f(x)"], [1, 3, 0, 2], id="in their order"),
        pytest.param("python", "def g(:\n    pass\n\nx = ???\n", ["1", "(", "2"], [0, 2, 1], id="broken elsewhere"),
        pytest.param("python", "x = f(???)\n", ["a b", "a, b"], [1, 0], id="by the rest of the line"),
        ("javascript", "const x = f(???);\n", ["a b", "a, b"], [1, 0]),
        ("typescript", "function f(): number {\n  ???\n}\n", ["return {", "return 1;"], [1, 0]),
        ("rust", "fn f() -> i32 {\n    ???\n}\n", ["let x = ;", "let x = 1;"], [1, 0]),
        ("go", "package a\n\nfunc f() int {\n\t???\n}\n", ["return (", "return 1"], [1, 0]),
        ("c", "int f(void) {\n    ???\n}\n", ["return 1 +;", "return 1;"], [1, 0]),
        ("java", "class A {\n    int f() {\n        ???\n    }\n}\n", ["return (;", "return 1;"], [1, 0]),
        ("ruby", "def f\n  ???\nend\n", ["if a", "a"], [1, 0]),
        ("lua", "local x = ???\n", ["1 +", "1"], [1, 0]),
        ("json", '{"a": ???}\n', ["[1", "[1]"], [1, 0]),
        ("css", "a {\n  color: ???;\n}\n", ["}", "red"], [1, 0]),
        pytest.param("", "x = ???\n", ["(", "1"], [0, 1], id="no grammar, so the order stays"),
    ],
)
def test_candidates_that_break_the_parse_come_last(
    language_id: str, text: str, candidates: list[str], wanted: list[int]
) -> None:
    assert order(text, *((each,) for each in candidates), language_id=language_id) == wanted


def test_all_holes_of_a_candidate_count() -> None:
    text = "def f():\n    ???\n\ny = ???\n"
    assert order(text, ("return (", "1"), ("return 1", "2"), ("pass", "2)"), ("pass", "3")) == [1, 3, 0, 2]


def test_bodies_are_held_against_their_place_too() -> None:
    source = Source.parse("python", "def f():\n")
    span = carve.at_cursor(source, 8)
    assert fitting.order(source, [span], [("\n    return )",), ("\n    return 1",)]) == [1, 0]


def test_a_single_fill_can_be_asked_whether_it_breaks_the_parse() -> None:
    source = Source.parse("python", "def g(:\n    pass\n\nx = ???\n")
    spans = carve.markers(source)
    assert fitting.breaks_parse(source, spans, ["("])
    assert not fitting.breaks_parse(source, spans, ["f(1)"])
    assert not fitting.breaks_parse(Source.parse("", source.text), spans, ["("])


def test_a_candidate_with_too_few_fills_is_an_error() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter than argument 1"):
        order("x = ???\ny = ???\n", ("1",), ("2",))

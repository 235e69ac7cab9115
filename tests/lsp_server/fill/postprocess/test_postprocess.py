"""Fits one fill for display, at a cursor or a marker. Candidates that newly break the parse come last.

It does no harm: code cut from real files comes back unchanged, even if the model writes on.
"""

import ast
import inspect
import json.decoder
import random
import textwrap
import types
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inference.ending import unpaired
from inference.messages import FilledHoles, HoleKind
from lsp_server import holes
from lsp_server.documents.document import Document
from lsp_server.fill import postprocess
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.scanning import find_brackets
from tests.lsp_server.fixtures import Case, cases, with_cursor

FIXTURES = Path(__file__).parent / "fixtures"
NOTHING = "(nothing)"


CASES = [
    pytest.param("" if path.stem == "plain" else path.stem, *case.values, id=f"{path.stem}: {case.id}")
    for path in sorted(FIXTURES.glob("*.txt"))
    for case in cases(path, "+", "=")
]


def at_marker(text: str, fill: str) -> str | None:
    source = Source.parse("python", text)
    return postprocess.FillPostprocessor(source).fit(holes.find_markers(source)[0], fill)


@pytest.mark.parametrize(("language_id", "case"), CASES)
def test_what_is_shown(language_id: str, case: Case) -> None:
    """The fill of a case (`+`) in the hole at its cursor becomes what is to be shown (`=`)."""
    text, offset = with_cursor(case.text)
    source = Source.parse(language_id, text)
    fitted = postprocess.FillPostprocessor(source).fit(holes.hole_at_cursor(source, offset), case.expected["+"])
    assert (NOTHING if fitted is None else fitted) == case.expected["="]


@pytest.mark.parametrize(
    ("language", "text", "fill", "shown"),
    [
        ("javascript", "f(`‸`)\n", "name ${a¦.b}`);", "name`)"),
        ("javascript", "if (f(‸))\n  g()\n", "a) && b¦) {", "a) && b)"),
        ("javascript", 'f("‸")\n', 'n¦", "a");', 'n")'),
        ("python", "x = f(‸) + 1\n", "ma(¦values)", None),
        ("python", "x = f(‸, 1)\n", "value(a¦b", "value"),
        ("python", "total = ‸\n", "total = value¦ + 1", "value"),
        ("python", "total = ‸\n", "total = ab¦.cd", None),
        ("python", "def f():\n    ‸\n\ny = 1\n", "if first¦ and second:\n        pass", "if first"),
        ("c", "int f(int a) {\n    ‸\n}\n", "int total = a¦ + 1;", "int total = a"),
        ("javascript", "function f() {\n  ‸\n}\n", "first();\n  second();\n  th¦ird();", "first();\n  second();"),
        ("python", "x = 1\n# ‸\ny = f(x)\n", "The¦ result.\nz = 2", "The result."),
        ("go", "func f() {\n\t/‸\n\tx := 1\n}\n", "/ The¦ first", "/ The first"),
        ("python", "x = 1\n# The ‸\ny = f(x)\n", "¦result of f", None),
    ],
)
def test_a_fill_with_a_doubt_fits_like_any_other(language: str, text: str, fill: str, shown: str | None) -> None:
    text, offset = with_cursor(text)
    fitter = postprocess.FillPostprocessor(Source.parse(language, text))
    unlikely_offset = fill.index("¦")
    hole = holes.hole_at_cursor(Source.parse(language, text), offset)
    assert fitter.fit(hole, fill.replace("¦", ""), unlikely_offset) == shown
    assert (postprocess.DropReason.UNSURE in fitter.drops) is (shown is None)


def test_no_part_of_a_fill_replaces_text() -> None:
    fitter = postprocess.FillPostprocessor(Source.parse("python", "x = old(value)\n"))
    hole = holes.HoleSpan(4, 14, HoleKind.LINE, single_line=True)
    assert fitter.fit(hole, "compute(value)", len("compute(")) is None
    assert fitter.fit(hole, "compute(value)") == "compute(value)"


def test_json_with_several_holes_gets_no_comma_before_a_bracket() -> None:
    text = '{\n  "a": ???,\n  "b": {\n    "c": ???\n  },\n  "d": [\n    1,\n    ???\n  ]\n}\n'
    source = Source.parse("json", text)
    fitter = postprocess.FillPostprocessor(source, marker="???")
    fills = ['"x"', '"x",', "2,"]
    fitted = [fitter.fit(*each) for each in zip(holes.find_markers(source), fills, strict=True)]
    assert fitted == ['"x"', '"x"', "2"]


@pytest.mark.parametrize(
    ("language_id", "before", "fill", "shown"),
    [
        *(("python", '"""', '"', None), ("python", '"""', '""', None), ("python", '"""', '"""', '"""')),
        *(("python", '"""', '"A module."""', 'A module."""'), ("python", "'''", "'", None)),
        *(("python", 'def f():\n    """', '"""Adds."""', 'Adds."""'), ("python", '"""A."""', '"', None)),
        *(("java", 'String s = """', '"', None), ("toml", 'a = """', '""', None)),
        *(("python", 'HELP = "', '""', None), ("python", "x = f('", "''", None), ("python", 'x = "', '"', '"')),
        ("python", 'def f():\n    "', '""Adds."""', '""Adds."""'),
    ],
)
def test_a_fill_adds_no_quotes_alone_to_quotes(language_id: str, before: str, fill: str, shown: str | None) -> None:
    source = Source.parse(language_id, before)
    span = holes.HoleSpan(len(before), len(before), HoleKind.LINE, single_line=True)
    assert postprocess.FillPostprocessor(source).fit(span, fill) == shown


@pytest.mark.parametrize("marker_fill", ["???", "", "  \n ", "\ufffd1"])
def test_a_fill_that_says_nothing_new_is_not_shown(marker_fill: str) -> None:
    assert at_marker("x = ???\n", marker_fill) is None


def test_a_fill_that_leaves_another_hole_is_dropped() -> None:
    text = "x = ???\ny = \n"
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    spans = [*holes.find_markers(snapshot), holes.hole_at_cursor(snapshot, len(text) - 1)]
    candidates = [FilledHoles("r", texts) for texts in (("???", "f(???)"), ("f(???)", "f(???)"), ("1", "2"))]
    found, drops = postprocess.postprocess_all(snapshot, spans, candidates, marker="???")
    assert [candidate.texts for candidate in found] == [("1", "2"), ("f(???)", "")], "a hole may stay one"
    assert drops[postprocess.DropReason.NEW_HOLE] == 2


def test_what_the_user_typed_is_never_taken_away() -> None:
    text = "value = 1\nother = ???\nvalue"
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    spans = [*holes.find_markers(snapshot), holes.hole_at_cursor(snapshot, len(text))]
    typed, left = FilledHoles("r", ("2", "value")), FilledHoles("r", ("???", "value"), unfilled=(0,))
    assert [each.texts for each in postprocess.postprocess_all(snapshot, spans, [typed])[0]] == [("2", "value")]
    assert postprocess.postprocess_all(snapshot, spans, [left])[0] == []


@pytest.mark.parametrize(
    ("language_id", "text", "fill", "shown"),
    [
        ("typescript", "foo(???, () => {});\n", ");", None),
        ("python", "s = f'{name} is {???} years'\n", "age} years old'", "age"),
        ("python", "def f(x):\n    ???\n", "if x:\n        return foo(", None),
        ("javascript", "???\n", "const re = /[(]x/.test(x);", "const re = /[(]x/.test(x);"),
        ("bash", "???\n", "echo ${x#(}", "echo ${x#(}"),
        ("markdown", "# A\n\n???\n", "smile :( ok", "smile :( ok"),
        ("go", "func New() *Store {\n\treturn ???\n}\n", "&Store{", None),
        ("go", "func f() {\n\t???\n}\n", 'g("(")\n\tif a {\n\t\th()', 'g("(")'),
    ],
)
def test_a_marker_hides_no_bracket_around_it(language_id: str, text: str, fill: str, shown: str | None) -> None:
    source = Source.parse(language_id, text)
    assert postprocess.FillPostprocessor(source, marker="???").fit(holes.find_markers(source)[0], fill) == shown


PIECES = st.lists(st.sampled_from(["a", "b1", "(", ")", "[", "]", "{", "}", " ", ", ", ";", "."]), max_size=12)


AFTER = st.sampled_from(["()", "[]", "{}"]).flatmap(
    lambda pair: st.lists(st.sampled_from(["a", "b1", *pair, " ", ", ", ";", "."]), max_size=12)
)
"""With one kind of brackets: of several that cross each other, nobody knows which have partners."""


@given(PIECES.map("".join), AFTER.map("".join))
def test_no_cut_leaves_more_brackets_without_partners(fill: str, after: str) -> None:
    table = table_of("javascript")

    def lonely(text: str) -> tuple[int, int]:
        closers, openers = unpaired(find_brackets(text, table))
        return len(closers), len(openers)

    assume(lonely(fill) == (0, 0))
    source = Source.parse("javascript", f"if (???{after}) {{\n}}\n")
    fit = postprocess.FillPostprocessor(source).fit(holes.find_markers(source)[0], fill) or ""
    cut, whole = (f"if ({each}{after}) {{" for each in (fit, fill))
    assert sum(lonely(cut)) <= sum(lonely(whole))
    assert not lonely(fit)[1] or lonely(after)[0]


INVISIBLE = (
    *("\x00", "\x1b", "\x07", "\x7f", "\x9b", "\x0b", "\xad", "\u061c", "\u200b", "\u200d", "\u200e", "\u202e"),
    *("\u2028", "\u2060", "\u2066", "\ufeff", "\ufffe", "\ufdd0", "\U0001ffff", "\u3164", "\u115f", "\ufe00"),
    *("\U000e0041", "\U000e0101", "\u180e", "\U0001d173", "\u2065", "\ufffc", "\u2800", "\ue000", "\ue0b0"),
    "\U0010fffd",
    *("\U000f0001", "\u1160", "\uffa0", "\u034f", "\u17b4", "\u17b5", "\u180b", "\U0003fffd", "\U000e0fff", "\ufe0f"),
)


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_no_fill_brings_what_cannot_be_seen(character: str) -> None:
    fill = f'"a{character}b"'
    for unused in (fill, f"a{character}", f"{character}a"):
        assert character not in (at_marker("x = ???\n", unused) or "")
    assert at_marker(f'y = "{character}"\nx = ???\n', fill) == fill, "the document uses it"


def test_byte_order_mark_in_front_is_no_use_of_it() -> None:
    assert at_marker("\ufeffx = ???\n", '"a\ufeffb"') is None


VISIBLE = (
    *("\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3", "\u00e9"),
    *("e\u0301", "\u65e5\u672c", "\u05e9", "\U0001f3f3\ufe0f\u200d\U0001f308", "\u00a0", "\u00a9\ufe0f"),
    "\U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f468\U0001f3fd",
)


@pytest.mark.parametrize("text", VISIBLE, ids=ascii)
def test_fills_bring_emoji_and_letters_of_any_script(text: str) -> None:
    """Joiners and selectors in an emoji are part of what is seen."""
    assert at_marker("x = ???\n", f'"{text}"') == f'"{text}"'


@pytest.mark.parametrize(
    "text",
    [
        *("\u2764\ufe0f\ufe0f", "\U0001f600\u200d", "1\ufe0f\ufe0f\u20e3"),
        *("\u2764\ufe0f\u200d\u200d\U0001f525", "\u2800\ufe0f"),
        "\u200d".join(["\U0001f468"] * 5),
    ],
    ids=ascii,
)
def test_no_fill_brings_more_joiners_than_an_emoji_has(text: str) -> None:
    assert at_marker("x = ???\n", f'"{text}"') is None


MODULES = [json.decoder, random, textwrap, types]


def source_of(module: types.ModuleType) -> str:
    return inspect.getsource(module)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_rest_of_a_line_comes_back(module: types.ModuleType) -> None:
    text, rng = source_of(module), random.Random(3)
    lines = text.split("\n")
    for number in rng.sample([n for n, line in enumerate(lines) if len(line.strip()) > 5], 40):
        line = lines[number].rstrip()
        column = rng.randrange(len(line) - len(line.lstrip()), len(line))
        cursor = sum(len(line) + 1 for line in lines[:number]) + column
        rest = line[column:]
        source = Source.parse("python", text[:cursor] + text[cursor + len(rest) :])
        span = holes.hole_at_cursor(source, cursor)
        fill = source.text[span.start : cursor] + rest
        assert postprocess.FillPostprocessor(source).fit(span, fill) == fill, f"line {number + 1}: {line}"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_body_comes_back_without_what_follows_it(module: types.ModuleType) -> None:
    text = source_of(module)
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    for node in random.Random(3).sample(functions, min(len(functions), 10)):
        first, last = node.body[0], node.body[-1]
        start, end = starts[first.lineno - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset
        source = Source.parse("python", text[:start] + text[end:])
        span = holes.hole_at_cursor(source, start)
        if first.lineno == node.lineno or span is None or span.kind != "body":  # `def f(): ...`, or a comment behind it
            continue
        assert (
            postprocess.FillPostprocessor(source).fit(span, text[start:end] + text[end : end + 300]) == text[start:end]
        ), node.name


def rank_by_errors(text: str, *candidates: tuple[str, ...], language_id: str = "python") -> list[int]:
    source = Source.parse(language_id, text)
    return postprocess.rank_by_errors(source, holes.find_markers(source), candidates)


@pytest.mark.parametrize(
    ("language_id", "text", "candidates", "wanted"),
    [
        pytest.param("python", "x = ???\n", ["1 +", "1", "(", "f(x)"], [1, 3, 0, 2], id="in their order"),
        pytest.param("python", "def g(:\n    pass\n\nx = ???\n", ["1", "(", "2"], [0, 2, 1], id="broken elsewhere"),
        pytest.param("python", "x = f(???)\n", ["a b", "a, b"], [1, 0], id="by the rest of the line"),
        ("go", "package a\n\nfunc f() int {\n\t???\n}\n", ["return (", "return 1"], [1, 0]),
        ("ruby", "def f\n  ???\nend\n", ["if a", "a"], [1, 0]),
        pytest.param("", "x = ???\n", ["(", "1"], [0, 1], id="no grammar, so the order stays"),
    ],
)
def test_candidates_that_break_the_parse_come_last(
    language_id: str, text: str, candidates: list[str], wanted: list[int]
) -> None:
    assert rank_by_errors(text, *((each,) for each in candidates), language_id=language_id) == wanted


def test_all_holes_of_a_candidate_count() -> None:
    text = "def f():\n    ???\n\ny = ???\n"
    assert rank_by_errors(text, ("return (", "1"), ("return 1", "2"), ("pass", "2)"), ("pass", "3")) == [1, 3, 0, 2]


def test_fills_at_a_cursor_are_held_against_their_place() -> None:
    for before, after, *fills in [
        ("def f():", "\n", "\n    return )", "\n    return 1"),
        ("f(x=", ")\n", "1 2)", "1)"),
    ]:
        source = Source.parse("python", before + after)
        span = holes.hole_at_cursor(source, len(before))
        assert postprocess.rank_by_errors(source, [span], [(fill,) for fill in fills]) == [1, 0]


def test_a_single_fill_can_be_asked_whether_it_breaks_the_parse() -> None:
    source = Source.parse("python", "def g(:\n    pass\n\nx = ???\n")
    spans = holes.find_markers(source)
    assert postprocess.breaks_parse(source, spans, ["("])
    assert not postprocess.breaks_parse(source, spans, ["f(1)"])
    assert not postprocess.breaks_parse(Source.parse("", source.text), spans, ["("])


def test_a_candidate_with_too_few_fills_is_an_error() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter than argument 1"):
        rank_by_errors("x = ???\ny = ???\n", ("1",), ("2",))

"""A fill ends where its text leaves the hole's block, closes what it did not open, or repeats what follows."""

from pathlib import Path

import pytest

from inference.ending import FillEnding, first_unlikely_offset, merge_typed_piece
from tests.lsp_server.fixtures import Case, cases, with_cursor

FIXTURES = Path(__file__).parent / "fixtures"
"""What a model writes at the cursor, `+`, and what is kept of it, `=`."""


@pytest.mark.parametrize("case", cases(FIXTURES / "endings.txt", "+", "="))
def test_a_text_is_cut_where_it_ends(case: Case) -> None:
    ending, text, kept = FillEnding(*case.text.split("‸")), case.expected["+"], case.expected["="]
    assert ending.cut(text) == kept
    for end in range(len(text) + 1):
        assert ending.cut_unfinished(text[:end]).startswith(kept[:end].rstrip()), "the decoder stops no earlier"


UNFINISHED = (
    *("r = os.", "    .", "f().", "a[1].", "a?.", "self._a.b.", "std::", "p->", "f(", "x = [", "x = {", "f(a, ", "a, "),
    *("x =", "x = ", "x=", "x += ", "x := ", "x == ", "x === ", "x <= ", "x > ", "a + ", "a+", "a - ", "a *", "a ** "),
    *("a / ", "a % ", "a ^ ", "a & ", "a && ", "a | ", "a || ", "a ?? ", "x => ", "fn f() ->", "a |> ", "cout << "),
    *("a >> ", "@", "import ", "from ", "a and ", "if not ", "x in ", "new ", "await ", "class A extends "),
)
FINISHED = (
    *("", "    ", "r = os", "import", "x = 1.", "f()", "f()?", "x = [1]", "{}", "i++", "i--", "...", "a..b", "====="),
    *("-----", "from x import *", "import a.*", "use a::*", "int x;", "if x:", "else", "end", "empty?", "save!"),
    *("key:", "List<int>", "<div>", "<br />", "do |x|", "return ", "# e.g. a.", 'x = "a.', "// a, ", '"""A list of,'),
)


@pytest.mark.parametrize("line", UNFINISHED)
def test_code_that_cannot_end_needs_text(line: str) -> None:
    assert FillEnding(f"x = 1\n{line}", "\ny = 2\n").needs_text
    assert FillEnding("x = 1\n", "\n", line).needs_text
    assert FillEnding(line, " b\n").needs_text is False
    assert FillEnding(f"{line}a", "\n").needs_text is False


@pytest.mark.parametrize("line", FINISHED)
def test_code_that_can_end_may_lack_nothing(line: str) -> None:
    assert not FillEnding(f"x = 1\n{line}", "\ny = 2\n").needs_text


@pytest.mark.parametrize(
    ("before", "after", "needs_text"),
    [
        ("f(", ")\n", False),
        ("f(a, ", ")\n", True),
        ("x = [", "];\n", False),
        ("a.", ";\n", True),
        ("f(a + ", ")\n", True),
        ("f(a + ", "b)\n", False),
        ("f(\n    a,", "\n    b\n)\n", False),
        ("f(", "\n    a\n)\n", False),
        ("f(", "\n)\n", False),
        ("{\n  a: 1,", "\n  b: 2\n}\n", False),
        ("x = a +", "\n    b\n", False),
        ("a.", "\n    b()\n", True),
    ],
)
def test_text_behind_the_hole_may_go_on(before: str, after: str, needs_text: bool) -> None:
    assert FillEnding(before, after).needs_text is needs_text


def test_a_line_that_begins_outside_ends_the_block() -> None:
    inside = FillEnding("def f(r):\n    ", "\n")
    kept = "return 3 * r"
    for end in ("\n\nprint", "\n\n# Test f.\nprint", "\n\n@"):
        assert inside.cut_unfinished(kept + end) == kept
    for more in ("\n\n", "\n\n#", "\n    x", "\n\n)", "\n``"):
        assert inside.cut_unfinished(kept + more) == kept + more
    for begun in ("x = [\n1", 'x = """\na', "x = (\na", "f(\n)\n", "x = 1\n# y\n", '"""a\nb\n', "x = 1\n\n"):
        assert inside.cut_unfinished(begun) == begun


@pytest.mark.parametrize(
    ("before", "is_in_prose"),
    [
        ('"""', True),
        ("def f():\n    '''Area.\n\n    ", True),
        ('def f():\n    """Area."""\n    ', False),
        ("import os\n\n# ", True),
        ("x = 1  # ", True),
        ("f();  // ", True),
        ("/**\n * ", True),
        ("-- ", True),
        ("#include ", False),
        ("#[derive(", False),
        ("x = a // b", False),
        ("*p = ", False),
        ("i--; ", False),
        ("return ", False),
        ('HELP = "', True),
        ("raise ValueError('not ", True),
        ("const help = `", True),
        ('print("a", "b ', True),
        ("x = rb'", True),
        ('HELP = "a"', False),
        (r'x = "\" + ', True),
        ('x = f"a {', False),
        ('x = f"a {b}', True),
        ('puts "a #{', False),
        ('f("{', True),
        ('f("a", ', False),
        ("impl<'a> Tree<'a> for ", False),
        ("fold' f = ", False),
        ("/* ", True),
        ("/*\n  A tree.\n  ", True),
        ("<!--\nA table ", True),
        ("--[[\n  ", True),
        ("{-\n", True),
        ("=begin\n", True),
        ("/* A tree. */\n", False),
        ('glob("src/*.py")\nx = ', False),
        ("f(*args)\n", False),
    ],
)
def test_a_hole_in_a_comment_or_docstring_looks_like_it(before: str, is_in_prose: bool) -> None:
    assert FillEnding(before, "\n").is_in_prose == is_in_prose


def test_text_around_may_change_while_the_rest_is_known() -> None:
    """An earlier fill of the line opens a bracket, so this one may close it, but not what the tree says is closed."""
    assert FillEnding("f(a, (", ")\n").cut("b), c)") == "b), c"
    assert FillEnding("f(", ")\n", closable="").cut("b), c") == "b"
    assert FillEnding("f(", "\n", closable=")").cut("b), c)") == "b), c"


def test_closing_brackets_that_the_hole_replaces_are_written() -> None:
    """An editor closed them, and an item of its list may stand for the typed `b`."""
    ending = FillEnding("f(a, ", "\n", "foo", current="b)", closable="", quotes="")
    assert ending.cut("foo) + 1)") == "foo) + 1"
    texts = ("foo", "foo)", "foo(c)", "foo]")
    assert [ending.add_replaced_closers(text) for text in texts] == ["foo)", "foo)", "foo(c))", "foo])"]
    assert ending.leaves_bracket_open("foo(c")
    assert not ending.leaves_bracket_open("foo) {")
    ending = FillEnding('x = ["', "\n", 'b", "', current='b", "]', closable="", quotes='"')
    assert {ending.add_replaced_closers('b", "c' + end) for end in ("", '"', '"]')} == {'b", "c"]'}


@pytest.mark.parametrize(
    ("quotes", "text", "kept"),
    [
        ('"', "a) b", "a) b"),
        ('"', r"a\") b" + '" + c} d', r"a\") b" + '" + c'),
        ("'''", "it's\n''' + d} e", "it's\n''' + d"),
        ("", "a} years'", "a"),
        (None, "a} b", "a} b"),
    ],
)
def test_brackets_in_the_string_it_is_in_end_no_text(quotes: str | None, text: str, kept: str) -> None:
    assert FillEnding("s = f'{x} {", "} b'\n", quotes=quotes).cut_at_closer(text) == kept


@pytest.mark.parametrize("current", ["", "a = 1\nb = 2"])
def test_a_rewritten_text_may_leave_its_block_as_before(current: str) -> None:
    kept = FillEnding("def f():\n    return ", "\n", current=current).cut("1\ny = 2")
    assert kept == ("1\ny = 2" if current else "1")


LONG = [
    "g();" + " " * 100_000 + "\n" * 100_000 + "x",
    "(" * 20_000 + ")" * 20_000,
    '"' * 100_000,
    "'''\"\"\"" * 20_000,
    '"' + "\\" * 100_000,
    "a\n" * 20_000,
    "<" * 50_000 + ">" * 50_000,
]


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_any_text_and_file_is_read_in_time(text: str) -> None:
    """Where it was quadratic, this took minutes."""
    for ending in (FillEnding("f() {\n  ", "\n}\n"), FillEnding(text, text)):
        assert len(ending.cut(text)) <= len(text)
        assert len(ending.cut_unfinished(text)) <= len(text)


def test_an_unclosed_docstring_shows_in_the_text() -> None:
    """The tree calls it code."""
    ending = FillEnding('def f():\n    """', "\n", quotes="")
    assert ending.is_in_prose
    assert ending.cut_unfinished('Area."""\n    return 1\n\n\ndef g():\n') == 'Area."""\n    return 1'


@pytest.mark.parametrize(
    ("before", "text", "after", "is_open"),
    [
        ("items.map(", "item => ({", ");\n", True),
        ("$a = array_map(", "function($name", ")\n", True),
        ("sort.Slice(", "xs, func(i, j int) bool {", ")\n", True),
        ("a = [", "(1, 2), (3", "]\n", True),
        ("items.map(", "item => ({id: item.id})", ");\n", False),
        ("f(", "g(a", "))\n", False),
        ("if (", "f(a)", ") {\n", False),
        ("if ready ", "{", "\n", False),
        ('print("', "(see", '")\n', False),
        ("# call f(", "a (or", ")\n", False),
    ],
)
def test_brackets_left_open_inside_a_line_are_told(before: str, text: str, after: str, is_open: bool) -> None:
    quotes = '"' if before.endswith('"') else None
    assert FillEnding(before, after, quotes=quotes).leaves_bracket_open(text) == is_open


@pytest.mark.parametrize(
    ("name", "before", "text", "after"),
    [
        ("a.js", "/* ", "a.js */", "\n"),
        ("a.js", "/**\n * ", "a.js", "\n */\nfunction add() {}\n"),
        ("a.js", "// ", "a.js is a module that exports a function.", "\n"),
        ("d.lua", "--[[ ", "d.lua", "\n"),
        ("k.lua", "--[[\n", "-- k.lua is a script", "\n"),
        ("d.sql", "-- ", "2. e.sql", "\nSELECT name FROM users;\n"),
        ("f.ml", "(* ", "f.cml", " *)\nlet add a b = a + b\n"),
        ("d.html", "<!-- ", "/d.html", " -->\n<p>Hello</p>\n"),
        ("d.html", "<!-- ", "e. html", " -->\n"),
        ("style.css", "", "/* index.html */", "\n"),
        ("f.rb", "=begin\n", "# add.rb", "\n=end\n"),
        ("main.py", "", "# main.py\nimport os", "\n"),
        ("main.py", "#", " --- src/main.py ---", "\n"),
        ("main.py", "# m", "ain.py", "\n"),
        ("main.py", "# ", "File: main.py", "\n"),
        ("main.py", '"""', "main.py is a script.", "\n"),
        ("main.py", "", '"""main.py is a script."""', "\n"),
        ("main.py", "print('", "main.py')", "\n"),
        ("Makefile", "# ", "Makefile", "\n"),
        ("Untitled-1", "", "# Untitled-1 (python)", "\n"),
        ("", "", "# (python)", "\n"),
    ],
)
def test_a_files_name_is_no_comment(name: str, before: str, text: str, after: str) -> None:
    assert FillEnding(before, after, name=name).is_unwanted(text)
    assert FillEnding(before, after, text[:1], name=name).is_unwanted(text), "as far as it is typed"
    assert not FillEnding(before, after).is_unwanted(text), "no model has seen a name"


@pytest.mark.parametrize(
    ("name", "before", "text", "after"),
    [
        ("d.py", "# see d.py\n# ", "d.py reads the file", "\n"),
        ("d.py", "# d.py", " reads the file", "\n"),
        ("d.py", "# ", "This is d.py", "\n"),
        ("d.py", "# ", "d.py", " reads the file\n"),
        ("d.py", "# @file ", "d.py", "\n"),
        ("d.py", "# a.py\n# ", "b.py", "\n"),
        ("d.py", "# ", "e.g. os.path", "\n"),
        ("d.py", "open('", "data.py')", "\n"),
        ("d.py", "x = [\n    ", "'a.py',", "\n]\n"),
        ("d.c", "f(", "d.c", ")\n"),
        ("d.js", "const help = `", "Usage: d.js <file>", "`;\n"),
        ("Makefile", "# ", "Makefile of the examples", "\n"),
    ],
)
def test_a_name_that_says_more_stays(name: str, before: str, text: str, after: str) -> None:
    assert not FillEnding(before, after, name=name).is_unwanted(text)


@pytest.mark.parametrize("comment", ["# main.py", "# tests/test_main.py", "# ---- util.py ----", "# (python)"])
def test_a_comment_that_names_a_file_begins_another(comment: str) -> None:
    ending = FillEnding("import os\n", "\n", name="main.py")
    for text in (f"x = 1\n\n{comment}", f"x = 1\n{comment}\nimport sys\n"):
        assert ending.cut(text) == ending.cut_unfinished(f"{text}\n") == "x = 1"
    listed = f"x = 1\n# The files:\n{comment}"
    assert ending.cut(listed) == listed


@pytest.mark.parametrize("case", cases(FIXTURES / "doubts.txt", "+", "="))
def test_a_text_ends_before_the_first_doubt(case: Case) -> None:
    """What the model writes has the sign of a cursor at its first doubt."""
    before, after = case.text.split("‸")
    text, offset = with_cursor(case.expected["+"])
    ending = FillEnding(before, after, quotes='"' if '"' in before else None)
    assert ending.cut_at_low_prob(text, offset) == case.expected["="]
    typed = FillEnding(before, after, text[:offset])
    assert typed.cut_at_low_prob(text, offset) in ("", text), "what was typed is not cut"


def test_what_was_typed_is_no_doubt() -> None:
    pieces, probs = ("com", "pute", "(", "x"), (0.2, 0.9, 0.4, 0.1)
    assert [first_unlikely_offset(pieces, probs, min_prob) for min_prob in (0.0, 0.2, 0.3)] == [None, 8, 0]
    assert merge_typed_piece("comp", pieces, probs) == (("comp", "ute", "(", "x"), (1.0, 0.9, 0.4, 0.1))
    assert first_unlikely_offset(*merge_typed_piece("comp", pieces, probs), 0.5) == 7
    assert first_unlikely_offset((), (), 0.5) is None


def test_a_comment_may_begin_with_no_space() -> None:
    assert FillEnding("x = 1\n#").is_comment("!") and not FillEnding("x = ").is_comment("#!")

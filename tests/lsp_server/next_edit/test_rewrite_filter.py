"""A model's rewrite becomes edits: the smallest that are good alone, without those that nobody wants.

`|` in a text is the cursor.
"""

from pathlib import Path

import pytest

from inference.messages import ScoredEdit
from lsp_server.documents.document import Document
from lsp_server.next_edit.cross_file import NextEditInput
from lsp_server.next_edit.edits import trimmed_edit
from lsp_server.next_edit.rewrite_filter import edits_from_rewrite
from tests.lsp_server.fixtures import Case, cases

FIXTURE = Path(__file__).parent / "fixtures" / "rewrites" / "edits_that_are_one.txt"
"""Each with its language, `@`, and what the model makes of the text, `+`."""


def edits(language: str, marked: str, new: str, *earlier: str) -> list[tuple[str, str]]:
    """What the offers replace, and by what, in order of the text. Together they make `new`, or none does."""
    cursor, text = marked.index("|"), marked.replace("|", "", 1)
    snapshot = Document("file:///project/a", language, 1, text).snapshot()
    found = edits_from_rewrite(NextEditInput(snapshot, earlier, cursor), ScoredEdit(0, len(text), new))
    assert [abs(edit.start - cursor) for edit in found[:1]] <= [abs(edit.start - cursor) for edit in found[-1:]]
    found.sort(key=lambda edit: edit.start)
    after = text
    for edit in reversed(found):
        after = after[: edit.start] + edit.text + after[edit.end :]
    assert after in (text, new)
    return [(text[edit.start : edit.end], edit.text) for edit in found]


GO = """package q

func parse(s string) (int, error) {|
	if s == "" {
		return -1
	}
	return len(s)
}
"""


def test_edits_that_are_good_alone_come_alone() -> None:
    text = GO.replace("|", "")
    new = text.replace("return -1", "return 0, errors.New(s)").replace("len(s)\n", "len(s), nil\n")
    found = edits("go", GO, new, text.replace("(int, error)", "int"))
    assert found == [("-1", "0, errors.New(s)"), ("", ", nil")]


@pytest.mark.parametrize("case", cases(FIXTURE, "@", "+"))
def test_edits_that_need_each_other_are_one(case: Case) -> None:
    new = case.expected["+"]
    assert len(edits(case.expected["@"], case.text, new, case.text.replace("|", "") + "# removed\n")) == 1


POINT = "class Point:\n    x: int\n    z: int|\n\n    def both(self):\n        return self.x, self.y\n"
BEFORE = POINT.replace("z: int|", "y: int")


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(BEFORE, id="what the user removed comes back"),
        pytest.param(POINT.replace("    z: int|\n", ""), id="what the user wrote goes"),
        pytest.param(POINT.replace("    z: int|\n", "    z: int\n    z: int\n"), id="what the user wrote comes again"),
        pytest.param(POINT.replace("|", "").replace("self.x, ", "self.x,  "), id="white space alone"),
        pytest.param(
            POINT.replace("|", "").replace("self.x, self.y", "(\n            self.x,\n            self.y,\n        )"),
            id="the same words laid out in another way",
        ),
        pytest.param(POINT.replace("|", "").replace("return self.x", "return (self.x"), id="a bracket without its end"),
        pytest.param(POINT.replace("|", "").replace("self.y", "self.\u200bz"), id="an invisible character"),
    ],
)
def test_an_edit_that_nobody_wants_is_dropped(new: str) -> None:
    assert edits("python", POINT, new, BEFORE) == []


def test_what_the_user_broke_is_mended() -> None:
    text = "import sys\n\nim|from a import b\n"
    assert edits("python", text, "import sys\n\nfrom a import b\n", "import sys\n\nfrom a import b\n") == [
        ("imfrom", "from")
    ]


def test_a_stub_is_replaced() -> None:
    text = "def area(shape):\n    pass|\n\n\nprint(area(3))\n"
    new = "def area(shape):\n    return shape.width\n\n\nprint(area(3))\n"
    assert edits("python", text, new, "print(area(3))\n") == [("pass", "return shape.width")]


def test_arguments_may_change_places_again() -> None:
    text = "def f(a, b):\n    return g(b, a|)\n\n\ndef h(a, b):\n    return g(a, b)\n"
    new = text.replace("|", "").replace("g(a, b)", "g(b, a)")
    assert edits("python", text, new, text.replace("|", "").replace("g(b, a)", "g(a, b)")) == [("a, b", "b, a")]


HANDLER = 'def handler(event):\n    user = event["user"]\n    return user|\n'


@pytest.mark.parametrize(
    ("language", "marked", "new"),
    [
        ("python", HANDLER, HANDLER.replace("user|", 'user["name"]')),
        ("python", HANDLER, HANDLER.replace('event["user"]', 'event.get("user")')),
        ("python", "@|\ndef slow(x):\n    return x\n", "@cache\ndef slow(x):\n    return x\n"),
        ("javascript", "function sum(a) {|\n}\n", "function sum(a) {\n  return a[0];\n}\n"),
        ("python", "def f():\n    |\n", "def f():\n    a = 1\n    return a\n"),
    ],
)
def test_a_rewrite_needs_no_earlier_edit(language: str, marked: str, new: str) -> None:
    assert len(edits(language, marked, new.replace("|", ""))) == 1


@pytest.mark.parametrize(
    ("new", "wanted"), [("print(width)\n", (6, 11, "width")), ("print(hight, 2)\n", (11, 11, ", 2"))]
)
def test_of_a_changed_line_whole_words_are_replaced(new: str, wanted: tuple[int, int, str]) -> None:
    text = "print(hight)\n"
    edit = trimmed_edit(0, text, new)
    assert (edit.start, edit.end, edit.text) == wanted

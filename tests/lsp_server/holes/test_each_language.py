"""What carving finds in each language: one fixture file for each.

--- line, starts with 'na'          the hole at the cursor ‸, drawn ⟦…⟧; `lines`: it may become several; or `nothing`
--- placeholders: body, lines; …    everything that asks to be filled, one description for each hole
--- function                        the function around the cursor, or around the selection «…»
--- whole body: body, lines         the body of that function, to be rewritten
--- selection: expression           the selection as a hole
--- statement: line                 the statement around the cursor or selection
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from inference.messages import HoleKind
from lsp_server import holes
from lsp_server.syntax.parsing import Source
from tests.lsp_server.fixtures import Case, cases

SIGNS = "‸«»⟦⟧"
FIXTURES = Path(__file__).parent / "fixtures"
LANGUAGES = sorted(path.stem for path in FIXTURES.glob("*.txt") if not path.stem.endswith("_markers"))
CASES = [
    pytest.param(language, *case.values, id=f"{language}: {case.id}")
    for language in LANGUAGES
    for case in cases(FIXTURES / f"{language}.txt", "---")
]


@pytest.mark.parametrize(("language_id", "case"), CASES)
def test_what_is_found(language_id: str, case: Case) -> None:
    text, (start, end) = without_signs(case.text)
    source = Source.parse(language_id, text)
    request, colon, expected = case.expected["---"].partition(": ")
    request, expected = (request, expected) if colon or request == "function" else ("", request)
    spans = spans_for(request, source, start, end)
    described_as = "" if request == "function" else "; ".join(map(described, spans)) or "nothing"
    drawn = text
    for span in reversed(spans):
        drawn = f"{drawn[: span.start]}⟦{drawn[span.start : span.end]}⟧{drawn[span.end :]}"
    assert (drawn, described_as) == ("".join(c for c in case.text if c not in "‸«»"), expected)


def spans_for(request: str, source: Source, start: int, end: int) -> Sequence[holes.HoleSpan]:
    match request:
        case "placeholders":
            return holes.find_placeholders(source)
        case "function":
            found = holes.function_span_around(source, start, end)
            return [] if found is None else [holes.HoleSpan(*found, HoleKind.BODY)]
        case "whole body":
            span = holes.body_hole_around(source, start)
        case "selection":
            span = holes.hole_in_selection(source, start, end)
        case "statement":
            span = holes.statement_around(source, start, end)
        case _:
            span = holes.hole_at_cursor(source, start)
    return [] if span is None else [span]


def described(span: holes.HoleSpan) -> str:
    words = [span.kind.value, *([] if span.single_line else ["lines"])]
    return ", ".join(words + ([f"starts with {span.starts_with!r}"] if span.starts_with else []))


def without_signs(drawn: str) -> tuple[str, tuple[int, int]]:
    """The text itself, and the range of its cursor or selection; (0, 0) without one."""
    text, marks = "", []
    for character in drawn:
        if character in "‸«»":
            marks.append(len(text))
        if character not in SIGNS:
            text += character
    return text, (marks[0], marks[-1]) if marks else (0, 0)


@pytest.mark.parametrize("language_id", LANGUAGES)
def test_the_fixtures_of_each_language_cover_what_matters(language_id: str) -> None:
    """The rest of a line, a word, the middle of a word, brackets, what is missing, and the function around."""
    covered = "\n".join(param.values[1].expected["---"] for param in CASES if param.values[0] == language_id)  # type: ignore[union-attr]
    wanted = {"line", "starts with", "nothing", "expression", "lines"}
    if language_id != "plain":
        wanted |= {"placeholders: ", "function", "marker"}
    assert {word for word in wanted if word not in covered} == set()

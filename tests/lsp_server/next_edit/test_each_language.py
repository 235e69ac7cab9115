"""The next edits in each language: one fixture file for each.

«old→new» is the user's change, ⟦old→new⟧ the expected offer. Nothing else is offered.
"""

from pathlib import Path

import pytest

from lsp_server.next_edit.finder import find_next_edits
from lsp_server.syntax.parsing import Source
from tests.lsp_server.fixtures import Case, cases
from tests.lsp_server.next_edit.drawing import drawn, read

FIXTURES = Path(__file__).parent / "fixtures"
LANGUAGES = sorted(path.stem for path in FIXTURES.glob("*.txt"))
CASES = [
    pytest.param(language, *case.values, id=f"{language}: {case.id}")
    for language in LANGUAGES
    for case in cases(FIXTURES / f"{language}.txt")
]


@pytest.mark.parametrize(("language_id", "case"), CASES)
def test_what_is_offered(language_id: str, case: Case) -> None:
    old, new, changed = read(case.text)
    found = find_next_edits(Source.parse(language_id, new), [old])
    assert drawn(new, changed, sorted([(edit.start, edit.end, edit.text) for edit in found])) == case.text

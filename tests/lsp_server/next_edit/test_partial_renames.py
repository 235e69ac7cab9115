"""The typed half of a name is completed where it was typed, and where only the old name is.

«old→new» is the user's change.
"""

import pytest

from lsp_server.next_edit.finder import next_edits
from lsp_server.syntax.parsing import Source
from tests.lsp_server.next_edit.drawing import read


def after(language: str, drawing: str) -> str:
    """The text with all that is offered."""
    old, text, _ = read(drawing)
    for edit in reversed(next_edits(Source.parse(language, text), [old])):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


@pytest.mark.parametrize(
    ("language", "drawing", "wanted"),
    [
        pytest.param(
            "typescript",
            'import { groupByCategory } from "./utils";\nrun(«groupByStatus→groupByCat», groupByStatus);\n',
            'import { groupByCategory } from "./utils";\nrun(groupByCategory, groupByCategory);\n',
            id="an import",
        ),
        pytest.param(
            "python",
            "def «by_status→by_cat»(items): ...\n\na = by_category(1), by_status(2)\n",
            "def by_category(items): ...\n\na = by_category(1), by_category(2)\n",
            id="a definition that others call by its whole name",
        ),
        pytest.param(
            "python",
            "class A:\n    def __init__(self):\n        self.category = 1\n        self.status = 2\n\n"
            "    def f(self):\n        return self.«status→cat»\n",
            "class A:\n    def __init__(self):\n        self.category = 1\n        self.status = 2\n\n"
            "    def f(self):\n        return self.category\n",
            id="a member",
        ),
        pytest.param(
            "python",
            "user_id = 3\n\n\ndef f():\n    «user_name→user» = 3\n    return user_name\n",
            "user_id = 3\n\n\ndef f():\n    user = 3\n    return user\n",
            id="a whole name that begins another",
        ),
        pytest.param(
            "python",
            "category = categories = status = 1\nprint(«status→cat»)\n",
            "category = categories = status = 1\nprint(cat)\n",
            id="a half of two names",
        ),
    ],
)
def test_a_half_is_completed(language: str, drawing: str, wanted: str) -> None:
    assert after(language, drawing) == wanted

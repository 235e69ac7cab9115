"""A fill in a notebook's cell sees the other cells around it as pinned text."""

from lsp_server.documents.document import ContentChange, Document
from lsp_server.documents.notebooks import MAX_CHARACTERS, Notebooks
from lsp_server.documents.positions import Encoding

NOTEBOOK = "file:///n.ipynb"


class OpenNotebook:
    """A notebook and its cells. A cell's URI is its name."""

    def __init__(self, **cells: str) -> None:
        self.documents: dict[str, Document] = {}
        self.notebooks = Notebooks(self.documents)
        self.notebooks.open(NOTEBOOK, list(cells))
        for name, text in cells.items():
            self.add(name, text)

    def add(self, name: str, text: str) -> None:
        language = "markdown" if text.startswith("# ") else "python"
        around = self.notebooks.surroundings_of(name)
        self.documents[name] = Document(name, language, 1, text, around)

    def around(self, name: str) -> tuple[str, str]:
        snapshot = self.documents[name].snapshot()
        return snapshot.text_before, snapshot.text_after


def test_cell_is_surrounded_by_its_neighbours() -> None:
    notebook = OpenNotebook(a="import os", b="x = 1\n", c="y = ", d="z = 3")
    assert notebook.around("c") == ("import os\n\nx = 1\n\n\n", "\n\nz = 3")
    assert notebook.around("a") == ("", "\n\nx = 1\n\n\ny = \n\nz = 3")


def test_cells_of_other_languages_are_left_out() -> None:
    notebook = OpenNotebook(a="import os", b="# Title", c="y = ")
    assert notebook.around("c") == ("import os\n\n", "")
    assert notebook.around("b") == ("", "")


def test_a_cell_sees_the_others_with_their_latest_text() -> None:
    notebook = OpenNotebook(a="x = 1", b="y = ")
    assert notebook.around("b") == ("x = 1\n\n", "")
    notebook.documents["a"].apply([ContentChange((0, 4), (0, 5), "2")], 2, Encoding.UTF16)
    assert notebook.around("b") == ("x = 2\n\n", "")
    assert notebook.documents["b"].snapshot() is notebook.documents["b"].snapshot()


def test_cells_come_go_and_move() -> None:
    notebook = OpenNotebook(a="a", b="b", c="c")
    notebook.notebooks.splice(NOTEBOOK, 0, 1, [])
    notebook.notebooks.splice(NOTEBOOK, 2, 0, ["a"])
    assert notebook.around("a") == ("b\n\nc\n\n", "")
    notebook.notebooks.splice(NOTEBOOK, 1, 1, ["d"])
    notebook.add("d", "d")
    assert notebook.around("a") == ("b\n\nd\n\n", "")
    assert notebook.around("c") == ("", ""), "a cell that is no longer in a notebook stands alone"


def test_far_cells_of_a_long_notebook_are_left_out_whole() -> None:
    cell = "x" * (MAX_CHARACTERS // 4)
    before, _ = OpenNotebook(**{name: cell + name for name in "abcdefg"}, last="y = ").around("last")
    assert before == "".join(f"{cell}{name}\n\n" for name in "efg")


def test_a_cell_belongs_to_its_notebook_until_that_is_closed() -> None:
    notebook = OpenNotebook(a="a")
    assert notebook.notebooks.notebook_or_self("a") == NOTEBOOK
    assert notebook.notebooks.notebook_or_self("file:///other.py") == "file:///other.py"
    assert notebook.notebooks.close(NOTEBOOK) == ["a"]
    assert notebook.notebooks.notebook_or_self("a") == "a"
    assert notebook.notebooks.surroundings_of("a") is None

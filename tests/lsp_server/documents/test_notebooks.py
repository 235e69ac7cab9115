"""A notebook's cells: what stands around one, and that a fill sees it as pinned text."""

from inference.messages import Hole, Text
from lsp_server import carve
from lsp_server.documents.document import Document, Edit
from lsp_server.documents.notebooks import MAX_CHARACTERS, Notebooks
from lsp_server.documents.positions import Encoding
from lsp_server.fill.pipeline import Budget, fill
from lsp_server.worker.paths import WorkerPlace
from tests.lsp_server.lsp.listening import Listening

NOTEBOOK = "file:///n.ipynb"


class Bench:
    """A notebook and its cells; a cell's URI is its name."""

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
        return snapshot.before, snapshot.after


def test_the_cells_before_and_after_stand_around_a_cell_in_their_order() -> None:
    bench = Bench(a="import os", b="x = 1\n", c="y = ", d="z = 3")
    assert bench.around("c") == ("import os\n\nx = 1\n\n\n", "\n\nz = 3")
    assert bench.around("a") == ("", "\n\nx = 1\n\n\ny = \n\nz = 3")


def test_cells_of_other_languages_are_left_out() -> None:
    bench = Bench(a="import os", b="# Title", c="y = ")
    assert bench.around("c") == ("import os\n\n", "")
    assert bench.around("b") == ("", "")


def test_a_cell_sees_the_others_as_they_are_now() -> None:
    bench = Bench(a="x = 1", b="y = ")
    assert bench.around("b") == ("x = 1\n\n", "")
    bench.documents["a"].apply([Edit((0, 4), (0, 5), "2")], 2, Encoding.UTF16)
    assert bench.around("b") == ("x = 2\n\n", "")
    assert bench.documents["b"].snapshot() is bench.documents["b"].snapshot()


def test_cells_come_go_and_move() -> None:
    bench = Bench(a="a", b="b", c="c")
    bench.notebooks.splice(NOTEBOOK, 0, 1, [])
    bench.notebooks.splice(NOTEBOOK, 2, 0, ["a"])
    assert bench.around("a") == ("b\n\nc\n\n", "")
    bench.notebooks.splice(NOTEBOOK, 1, 1, ["d"])
    bench.add("d", "d")
    assert bench.around("a") == ("b\n\nd\n\n", "")
    assert bench.around("c") == ("", ""), "a cell that is in no notebook any more stands alone"


def test_far_cells_of_a_long_notebook_are_left_out_whole() -> None:
    cell = "x" * (MAX_CHARACTERS // 4)
    bench = Bench(**{name: cell + name for name in "abcdefg"}, last="y = ")
    before, _ = bench.around("last")
    assert before == "".join(f"{cell}{name}\n\n" for name in "efg")


def test_the_rules_for_a_cell_are_those_of_its_notebook() -> None:
    bench = Bench(a="a")
    assert bench.notebooks.home_of("a") == NOTEBOOK
    assert bench.notebooks.home_of("file:///other.py") == "file:///other.py"
    assert bench.notebooks.close(NOTEBOOK) == ["a"]
    assert bench.notebooks.home_of("a") == "a"
    assert bench.notebooks.surroundings_of("a") is None


def test_a_fill_sees_what_stands_around_as_pinned_text() -> None:
    bench = Bench(a="x = 1", b="y = ???\n", c="z = 3")
    snapshot = bench.documents["b"].snapshot()
    spans = carve.markers(snapshot)
    first, hole, last = carve.segments(snapshot.text, spans, snapshot.before, snapshot.after)
    assert isinstance(hole, Hole)
    assert (first, last) == (Text("x = 1\n\ny = "), Text("\n\n\nz = 3"))


def test_without_holes_the_surroundings_are_there_once() -> None:
    assert carve.segments("text", [], "before ", " after") == (Text("before text after"),)


async def test_the_model_is_asked_about_a_cell_with_the_others_around_it(resident: WorkerPlace) -> None:
    bench = Bench(a="x = 1", b="y = ???\n", c="z = 3")
    snapshot = bench.documents["b"].snapshot()
    async with Listening() as worker:
        filled = await fill(worker, snapshot, carve.markers(snapshot), Budget(1, 60_000, 1))
    first, _, last = worker.asked[0].segments
    assert (first, last) == (Text("x = 1\n\ny = "), Text("\n\n\nz = 3"))
    assert all(len(texts) == 1 for texts in filled.answers)

"""Open notebooks: their cells in order, and the text around each cell, which its fills see, pinned. No LSP types."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from lsp_server.documents.document import Document

MAX_CHARACTERS = 40_000
"""The limit for other cells on each side of one. Drops only whole cells, so that the prompt stays the same."""
_BETWEEN = "\n\n"


class Notebooks:
    """The open notebooks. `documents` are all of the session's, cells and others."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents
        self._cells: dict[str, list[str]] = {}

    def open(self, notebook: str, cells: Sequence[str]) -> None:
        """Adds a notebook with these cells. Notebooks and cells are named by their URIs."""
        self._cells[notebook] = list(cells)

    def splice(self, notebook: str, start: int, count: int, cells: Sequence[str]) -> None:
        """Replaces `count` cells from the `start`th on, counted from 0, by `cells`."""
        self._cells.setdefault(notebook, [])[start : start + count] = cells

    def cells_of(self, notebook: str) -> list[str]:
        return list(self._cells.get(notebook, ()))

    def close(self, notebook: str) -> list[str]:
        return self._cells.pop(notebook, [])

    def notebook_or_self(self, uri: str) -> str:
        """The notebook of a cell, whose settings apply to the cell; for any other document, its own URI."""
        return next((notebook for notebook, cells in self._cells.items() if uri in cells), uri)

    def surroundings_of(self, uri: str) -> Callable[[], tuple[str, str]] | None:
        """A function that returns the text before and after a cell; None for any other document."""
        return (lambda: self._around(uri)) if self.notebook_or_self(uri) != uri else None

    def _around(self, cell: str) -> tuple[str, str]:
        order = self._cells.get(self.notebook_or_self(cell), [])
        if cell not in order or cell not in self._documents:
            return "", ""
        index = order.index(cell)
        language = self._documents[cell].language_id
        texts_before = _nearest(self._texts(reversed(order[:index]), language))
        texts_after = _nearest(self._texts(order[index + 1 :], language))
        return "".join(text + _BETWEEN for text in reversed(texts_before)), "".join(
            _BETWEEN + text for text in texts_after
        )

    def _texts(self, cells: Iterable[str], language: str) -> Iterable[str]:
        documents = (self._documents.get(cell) for cell in cells)
        return (document.text for document in documents if document and document.language_id == language)


def _nearest(texts: Iterable[str]) -> list[str]:
    chosen: list[str] = []
    remaining_chars = MAX_CHARACTERS
    for text in texts:
        remaining_chars -= len(text) + len(_BETWEEN)
        if remaining_chars < 0:
            break
        chosen.append(text)
    return chosen

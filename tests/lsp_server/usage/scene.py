"""An open document that records each event, in place of the writing thread."""

from lsp_server.documents.document import Document, Edit
from lsp_server.documents.positions import Encoding
from lsp_server.usage.document_usage import DocumentUsage, Offer, Timing
from lsp_server.usage.events import Decided, Event, Look, Shown

OFFER = Offer("inline-1", "line", "typing", 0.5, 7)


class Scene:
    """A document of one line, and what its `usage` has told."""

    def __init__(self, text: str, later_s: float = 300.0) -> None:
        self.document = Document("file:///a.py", "python", 1, text)
        self.told: list[Event] = []
        self.usage = DocumentUsage(self.document, self.told.append, later_s)

    def show(self, offer: Offer = OFFER) -> None:
        self.usage.shown(offer, Timing(0.0))

    def edit(self, start: int, end: int, text: str) -> None:
        edits = [Edit((0, start), (0, end), text)]
        self.usage.changed(self.document.apply(edits, self.document.version + 1, Encoding.UTF16))

    def accept(self, start: int, length: int, *, whole: bool = True, name: str = OFFER.name) -> None:
        self.usage.accepted(name, start, length, whole=whole)

    @property
    def shown(self) -> list[Shown]:
        return [event for event in self.told if isinstance(event, Shown)]

    @property
    def decided(self) -> list[tuple[str, int]]:
        return [(event.outcome, event.taken_characters) for event in self.told if isinstance(event, Decided)]

    @property
    def looks(self) -> list[tuple[str, str, str]]:
        return [(event.when, event.taken, event.stands) for event in self.told if isinstance(event, Look)]

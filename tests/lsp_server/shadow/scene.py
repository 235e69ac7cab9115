"""A document, a main model's answers for its holes, and another model played by a scripted worker."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from inference.messages import HoleKind, Snippet, Status
from lsp_server.carve import Span
from lsp_server.documents.document import Document, Edit, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.documents.tracking import TextRange
from lsp_server.fill.pipeline import Budget, FillOptions
from lsp_server.settings.schema import Settings, ShadowSettings
from lsp_server.shadow.other_model import AnsweredRequest
from lsp_server.shadow.shadow import Shadow
from lsp_server.usage.events import Event, Pair, PairLook
from lsp_server.worker import WorkerClient, WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_worker
from tests.workers import short_folder, until

URI = "file:///a.py"
MAIN = WorkerOptions("diffusiongemma-26b")


@dataclass
class Scene:
    """The session, as far as `Shadow` sees it, and all that was told."""

    worker: ScriptedWorker
    text: str = "x = \nprint(x)\n"
    sample: float = 1.0
    quiet_s: float = 0.01
    later_s: float = 300.0
    seed: int = 1
    may: bool = True
    is_computing: bool = False
    model_client: WorkerClient = field(default_factory=lambda: WorkerClient(MAIN, name="main"))
    told: list[Event] = field(default_factory=list)
    statistics: str = "on"

    def __post_init__(self) -> None:
        self.document = Document(URI, "python", 1, self.text)
        chance = random.Random(self.seed)
        pauses = {"quiet_s": self.quiet_s, "later_s": self.later_s}
        self.shadow = Shadow(self, lambda _, event: self.told.append(event), chance, **pauses)
        self.shadow.configure(MAIN, WorkerOptions())

    @property
    def documents(self) -> Mapping[str, Document]:
        return {URI: self.document}

    def settings_of(self, _uri: str) -> Settings:
        shadow = ShadowSettings(self.sample)
        return Settings(shadow=shadow, statistics="on" if self.statistics == "on" else "off")

    async def may_send(self, _snapshot: Snapshot) -> bool:
        return self.may

    async def context_for(self, _snapshot: Snapshot, _offset: int, _status: Status | None) -> tuple[Snippet, ...]:
        return ()

    def request(self, *texts: str, at: int = 4, deadline_ms: int = 60_000, **more: object) -> AnsweredRequest:
        """An answer for one hole at `at`, or for the markers of the text where there are several texts."""
        snapshot = self.document.snapshot()
        if len(texts) == 1:
            spans = [Span(at, at, HoleKind.LINE)]
        else:
            starts = [start for start in range(len(snapshot.text)) if snapshot.text.startswith("???", start)]
            spans = [Span(start, start + 3, HoleKind.MARKER) for start in starts]
        places = [TextRange(span.start, span.end) for span in spans]
        budget = Budget(1, deadline_ms, 1)
        keys = list(range(100, 100 + len(spans)))
        return AnsweredRequest(snapshot, spans, places, texts, "asked", budget, "???", 5.0, suggestions=keys, **more)  # type: ignore[arg-type]

    def answer(self, *texts: str, **more: object) -> None:
        self.shadow.answered(self.request(*texts, **more))  # type: ignore[arg-type]

    def edit(self, start: int, end: int, text: str) -> None:
        lines = self.document.lines
        ends = [lines.position(at, Encoding.UTF16) for at in (start, end)]
        changes = self.document.apply([Edit(ends[0], ends[1], text)], self.document.version + 1, Encoding.UTF16)
        self.shadow.changed(URI, changes)

    @property
    def pairs(self) -> list[Pair]:
        return [event for event in self.told if isinstance(event, Pair)]

    @property
    def outcomes(self) -> list[str]:
        return [pair.outcome for pair in self.pairs]

    @property
    def looks(self) -> list[tuple[str, str]]:
        return [(event.when, event.stands) for event in self.told if isinstance(event, PairLook)]

    async def until_pairs(self, count: int) -> None:
        await until(lambda: len(self.pairs) >= count)

    async def compare(self, *texts: str) -> None:
        self.answer(*texts)
        await self.until_pairs(len(self.pairs) + 1)

    async def until_asked(self, count: int = 1) -> None:
        await self.worker.until(lambda: len(self.worker.requests) >= count)


@asynccontextmanager
async def scene(monkeypatch: pytest.MonkeyPatch, **more: object) -> AsyncIterator[Scene]:
    """The other model finds `better(x)` at once; with `worker.fills` None it is silent."""
    with short_folder() as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        async with scripted_worker() as worker:
            worker.fills = ["better(x)"]
            found = Scene(worker, **more)  # type: ignore[arg-type]
            try:
                yield found
            finally:
                await found.shadow.close()


REWORK = FillOptions(strength=0.6)

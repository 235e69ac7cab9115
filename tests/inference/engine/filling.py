"""Requests to an engine of any family, and the invariants of every answer."""

from collections.abc import Iterable
from typing import Any

from inference.engine.engine import Engine
from inference.messages import Done, Draft, FilledHoles, Hole, InfillRequest, PinnedText

BEFORE = "import os\n\n\ndef list_files(folder):\n    names = []\n    for name in os.listdir(folder):\n        "
AFTER = "\n    return names\n\n\ndef main():\n    print(list_files('.'))\n"


class Answer:
    def __init__(self, events: Iterable[Any]) -> None:
        found = [event for event in events if event is not None]
        kinds = [type(event) for event in found]
        assert kinds == sorted(kinds, key=[Draft, FilledHoles, Done].index)
        assert kinds.count(Done) == 1
        self.drafts = [event for event in found if isinstance(event, Draft)]
        self.candidates = [event for event in found if isinstance(event, FilledHoles)]
        self.done: Done = found[-1]

    @property
    def text(self) -> str:
        return self.candidates[0].texts[0]


def fill(engine: Engine, *segments: PinnedText | Hole | str, **options: Any) -> Answer:
    return Answer(engine.infill(request(*segments, **options)))


def request(*segments: PinnedText | Hole | str, **options: Any) -> InfillRequest:
    """A request, in which a string is pinned text."""
    parts = tuple(PinnedText(each) if isinstance(each, str) else each for each in segments)
    return InfillRequest("r", parts, **options)


def line(**options: Any) -> Hole:
    return Hole(single_line=True, **options)

"""Requests to an engine of any family, and the invariants of every answer."""

from collections.abc import Callable, Iterable
from typing import Any

from inference.engine.engine import Engine
from inference.messages import Done, Draft, FilledHoles, Hole, InfillRequest, Pinned

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


def fill(engine: Engine, *segments: Pinned | Hole | str, **options: Any) -> Answer:
    return Answer(engine.infill(request(*segments, **options)))


def fill_typing(
    engine: Engine,
    *segments: Pinned | Hole | str,
    typing: Callable[[Draft, dict[int, str]], dict[int, str]],
    **options: Any,
) -> tuple[Answer, dict[int, str]]:
    """The answer, each candidate of which begins with what is typed meanwhile, by hole.

    `typing` says at each draft what is typed into which hole; it is told what was typed before.
    """
    run, typed, events = engine.infill(request(*segments, drafts=True, **options)), dict[int, str](), []
    for event in run:
        events.append(event)
        if isinstance(event, Draft):
            for hole, text in typing(event, typed).items():
                run.amend(hole, text)
                typed[hole] = text
    answer = Answer(events)
    assert any(typed.values())
    assert answer.candidates
    assert all(one.texts[hole].startswith(text) for one in answer.candidates for hole, text in typed.items())
    return answer, typed


def request(*segments: Pinned | Hole | str, **options: Any) -> InfillRequest:
    """A request, in which a string is pinned text."""
    parts = tuple(Pinned(each) if isinstance(each, str) else each for each in segments)
    return InfillRequest("r", parts, **options)


def line(**options: Any) -> Hole:
    return Hole(single_line=True, **options)

"""Newest wins: what is being computed for a document stops when something newer makes it useless. No LSP types."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Work(Generic[T]):
    task: "asyncio.Task[T]"
    invoked: bool


class Newest(Generic[T]):
    """The work that runs for each document."""

    def __init__(self) -> None:
        self._running: dict[str, list[_Work[T]]] = {}

    def start(self, document: str, coroutine: Coroutine[Any, Any, T], *, invoked: bool) -> "asyncio.Task[T | None]":
        """Run `coroutine` and stop what ran before for `document`; its result, or None when it was stopped in turn.

        What the user asked for (`invoked`) is not stopped by what merely appears while typing: a change of the text
        stops both. Cancelling the returned task cancels the work, and is not taken for being stopped.
        """
        self.stop(document, keep_invoked=not invoked)
        work = _Work(asyncio.create_task(coroutine), invoked)
        self._running.setdefault(document, []).append(work)
        work.task.add_done_callback(lambda _: self._ended(document, work))
        waiting = asyncio.create_task(_outcome(work.task))
        waiting.add_done_callback(lambda _: work.task.cancel())  # also when cancelled before it began to wait
        return waiting

    def stop(self, document: str, *, keep_invoked: bool = False) -> None:
        """Stop what runs for `document`."""
        for work in self._running.get(document, ()):
            if not (keep_invoked and work.invoked):
                work.task.cancel()

    def _ended(self, document: str, work: _Work[T]) -> None:
        left = [other for other in self._running[document] if other is not work]
        if left:
            self._running[document] = left
        else:
            del self._running[document]


async def _outcome(task: "asyncio.Task[T]") -> T | None:
    try:
        return await task
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if waiting is not None and waiting.cancelling():
            raise
        return None

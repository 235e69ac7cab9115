"""Whose step is next.

The document that has used least engine time goes first, and in it the request that has used least; on a tie the newest,
which is what the user is looking at. A newcomer starts level with the least served, so that it neither waits for what
others have used before it came nor makes them wait for ever. Knows no engine and no threads.
"""

from collections.abc import Collection, Hashable, Iterable
from itertools import count

from inference.serving.infiller import Job


class Fairness:
    """Engine time used by each document that has work. Not thread-safe: the scheduler's lock guards it."""

    def __init__(self) -> None:
        self._used_s: dict[Hashable, float] = {}
        self._orders = count(1)

    def join(self, job: Job, others: Collection[Job]) -> None:
        """Count `job` in, level with the least served of `others`, the jobs that were there before it."""
        job.order = next(self._orders)
        siblings = [other.used_s for other in others if other.document == job.document]
        job.used_s = min(siblings, default=0.0)
        if not siblings:
            self._used_s[job.document] = min(self._used_s.values(), default=0.0)

    def leave(self, job: Job, others: Iterable[Job]) -> None:
        """Count `job` out; `others` are the jobs that remain."""
        if all(other.document != job.document for other in others):
            self._used_s.pop(job.document, None)

    def charge(self, job: Job, seconds: float) -> None:
        """A step of `job` took this long."""
        job.used_s += seconds
        if job.document in self._used_s:
            self._used_s[job.document] += seconds

    def next(self, jobs: Iterable[Job]) -> Job | None:
        """The job whose step is next; None when there are none."""
        return min(jobs, key=self._rank, default=None)

    def _rank(self, job: Job) -> tuple[float, float, int]:
        return self._used_s.get(job.document, 0.0), job.used_s, -job.order

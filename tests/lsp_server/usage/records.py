"""What the file of counters and comparisons holds."""

from lsp_server.usage.statistics import CounterKey, ShadowPair, query_rows, usage_file
from tests.workers import until


def counts(days: int = 1) -> dict[CounterKey, float]:
    rows = query_rows(usage_file(), "SELECT * FROM counter WHERE day > date('now', 'localtime', ?)", days)
    return {CounterKey(*key): count for *key, count in (row.values() for row in rows)}


def pairs() -> list[ShadowPair]:
    rows = query_rows(usage_file(), "SELECT * FROM pair WHERE day > date('now', 'localtime', ?)", 2)
    return [ShadowPair(**row) for row in rows]


async def pairs_once(count: int) -> list[ShadowPair]:
    """The comparisons, once there are so many."""
    return await until(lambda: len(found := pairs()) >= count and found)

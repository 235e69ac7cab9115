"""What the file of counters holds."""

from lsp_server.usage.statistics import CounterKey, query_rows, usage_file


def counts(days: int = 2) -> dict[CounterKey, float]:
    """Of the last days; two by default, so that a test may run across midnight."""
    rows = query_rows(usage_file(), "SELECT * FROM counter WHERE day > date('now', 'localtime', ?)", days)
    return {CounterKey(*key): count for *key, count in (row.values() for row in rows)}

"""`infill-ls shadow report` tells which of two models writes what you keep."""

import argparse

from lsp_server.commands.stats import add_report_arguments, print_report

_COMPARISONS = """
SELECT main_model || ', ' || other_model || ': ' || part AS models,
    COUNT(*) AS requests,
    SUM(outcome = 'answered') AS answered,
    COUNT(other_similarity) AS saved,
    ROUND(AVG(main_similarity), 3) AS main,
    ROUND(AVG(other_similarity), 3) AS other,
    CAST(ROUND(AVG(main_ms)) AS INTEGER) AS "main ms",
    CAST(ROUND(AVG(other_ms)) AS INTEGER) AS "other ms"
FROM (SELECT *, 'all' AS part FROM pair UNION ALL SELECT *, language AS part FROM pair)
WHERE day > date('now', 'localtime', ?) GROUP BY 1 ORDER BY 1
"""
_NOTHING = (
    "Nothing is recorded. Set partner.url, and shadow.sample to the share of requests for both models (such as 0.2)."
)
_NOTE = """`main` and `other`: how similar each model's text is to what you saved (1: the same). What you accept counts
for the main model. `infill-ls stats forget` deletes these records, and the statistics."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="report")
    add_report_arguments(actions.add_parser("report", help="compare the two models on your own requests"))


def run(args: argparse.Namespace) -> int:
    """Prints the report. Exit status 1 if the file is unusable, 3 if nothing is recorded."""
    return print_report(args, {"comparisons": _COMPARISONS}, _NOTHING, _NOTE)

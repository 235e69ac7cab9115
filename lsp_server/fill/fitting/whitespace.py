"""White space of a fill: at its start, its indentation, at its end."""

import re

from inference.messages import HoleKind
from lsp_server.fill.fitting.around import Around
from lsp_server.syntax.lines import indent_step, indentation, is_blank, is_deeper

_LEADING_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+[ \t]*")


def trim_start(around: Around, fill: str) -> str:
    """`fill` without blank lines at its start, and without white space there that the text before it already has."""
    head, rest = around.starts_with, fill[len(around.starts_with) :]
    if around.literal or (head and not is_blank(head)):
        return fill
    if around.at_line_start and not around.span.single_line:
        rest = _LEADING_BLANK_LINES.sub("", rest, count=1) if _LEADING_BLANK_LINES.match(rest) else rest
    if (around.before + head)[-1:] in (" ", "\t"):
        rest = rest.lstrip(" \t")
    return head + rest


def indent_like(around: Around, text: str, fill: str) -> str:
    """`fill` with tabs where the text around it is indented by tabs, and spaces where it is by spaces."""
    if "\n" not in fill:
        return fill
    step = indent_step(text, around.span.start, around.table.indent)
    with_tabs = "\t" in (around.indent or step)
    lines = fill.split("\n")
    return "\n".join([lines[0], *(_restyled(line, with_tabs, step) for line in lines[1:])])


def _restyled(line: str, with_tabs: bool, step: str) -> str:
    lead = indentation(line, 0)
    if with_tabs:
        return lead.replace("    ", "\t") + line[len(lead) :]
    return lead.replace("\t", "    " if "\t" in step else step) + line[len(lead) :]


def stay_in_block(around: Around, fill: str) -> str:
    """`fill` up to the first line that is indented less than its first one: there the block ends.

    Cuts only where indentation makes blocks, and not inside a string that spans lines.
    """
    if not around.table.by_indentation or not around.at_line_start or around.literal:
        return fill
    lines = fill.split("\n")
    head = around.starts_with.count("\n") + 1
    for index in range(head, len(lines)):
        kept = "\n".join(lines[:index])
        in_string = any(kept.count(quote) % 2 for quote in around.table.multiline_quotes)
        if not is_blank(lines[index]) and not in_string and is_deeper(around.indent, indentation(lines[index], 0)):
            return kept
    return fill


def close_on_new_line(around: Around, fill: str) -> str:
    """`fill`, plus a line end if it began on a new line and the closer of its block follows on the old one."""
    follows = re.match(rf"\s*(?:{'|'.join(map(re.escape, around.table.closers)) or '(?!)'})(?!\w)", around.after)
    began = around.span.kind == HoleKind.BODY and "\n" in around.starts_with
    return f"{fill}\n{indentation(around.before, 0)}" if began and follows else fill


def trim_end(around: Around, fill: str) -> str:
    """`fill` without blank lines at its end, and without white space there unless it separates the fill from code."""
    fill = fill.rstrip("\n") if around.span.single_line else fill.rstrip()
    follows = around.after[:1]
    return fill if follows and not follows.isspace() and follows not in ")]},;:" else fill.rstrip()

"""Chooses the lines that a fill model may rewrite after a change: at the cursor, or the first that use the change."""

from itertools import pairwise

from lsp_server.fill.postprocess import count_errors
from lsp_server.next_edit.cross_file import NextEditInput
from lsp_server.next_edit.names import NameIndex, Role
from lsp_server.next_edit.text_diff import WORD_OR_PUNCTUATION, TextDiff
from lsp_server.syntax.lines import end_of_text_before, indentation, is_blank, line_end, line_start
from lsp_server.syntax.view import SyntaxView

_MAX_LINES = 8


def lines_to_rewrite(edit_input: NextEditInput, text: str) -> tuple[int, int] | None:
    """The whole lines of what begins in the cursor's line, which may no longer fit after changes elsewhere.

    None: there is nothing, or the user is writing it; but a broken line that goes on after the cursor may be repaired.
    """
    view = SyntaxView.from_source(edit_input.snapshot)
    start, end = line_start(text, edit_input.cursor), line_end(text, edit_input.cursor)
    if view is None or is_blank(text[start:end]) or not (edit_input.old_texts or edit_input.other_documents):
        return None
    is_new = any(TextDiff(old, text).has_new_text(start, end) for old in edit_input.old_texts[-1:])
    if is_new and (is_blank(text[edit_input.cursor : end]) or not count_errors(view.root)):
        return None
    for node in view.ancestors(view.leaf_at(start + len(indentation(text, start)))):
        stop = line_end(text, end_of_text_before(text, view.end(node)))
        if view.start(node) < start or text.count("\n", start, stop) >= _MAX_LINES:
            break
        end = max(end, stop)
    return start, min(end + 1, len(text))


def lines_using_change(edit_input: NextEditInput, text: str) -> tuple[int, int] | None:
    """The whole lines of the first statement below the last change that uses a name declared there, with what follows
    it in its block, as far as that is short. None: there is none.
    """
    names = NameIndex.from_source(edit_input.snapshot)
    changed = TextDiff(edit_input.old_texts[0], text).changed_lines if edit_input.old_texts else ()
    if names is None or not changed:
        return None
    words = (word for lines in changed for word in WORD_OR_PUNCTUATION.finditer(text, lines.start, lines.end))
    uses = [
        use
        for name in filter(None, (names.at_offset(word.start()) for word in words))
        if name.role in (Role.DEFINITION, Role.MEMBER)
        for use in names.occurrences(name.text)
        if use.start >= changed[-1].end and use.role in (Role.USE, Role.FIELD)
        if names.binding_scope_id(use) in (0, names.binding_scope_id(name))
    ]
    for use in sorted(uses, key=lambda use: use.start):
        nodes = pairwise((use.node, *use.ancestors))
        blocks = names.view.table.blocks
        in_block = (pair for pair in nodes if pair[1].type in blocks or pair[1].parent is None)
        statement, block = next(in_block, (use.node, use.node))
        start = line_start(text, names.view.start(statement))
        ends = (line_end(text, names.view.end(node)) for node in block.named_children)
        end = max((end for end in ends if end > use.start and text.count("\n", start, end) < _MAX_LINES), default=0)
        if end:
            return start, min(end + 1, len(text))
    return None

"""Finds what no longer fits after a rename: the other places of the same binding, member or argument, if certain."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from tree_sitter import Node

from inference.messages import HoleKind
from lsp_server.carve import Span
from lsp_server.documents.change import TextChange, minimal_change
from lsp_server.fill.fitting import errors_with
from lsp_server.next_edit.edit_history import Comparison
from lsp_server.next_edit.members import calls, declaration, function_name, is_bound_in, statement, uses_of_member
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.syntax.lines import end_of_text_before, is_word, line_end, line_start, word_before
from lsp_server.syntax.parsing import Source, edit_tree, parse

_SHADOWING = frozenset({"let_declaration"})
"""Kinds of definitions that replace an earlier one of the same name."""
_MANY = re.compile(r"\[|(?i:list|vec|set|array|sequence|iterable|collection|slice)\b.*[<\[]")
"""A type of several values."""
_ALIAS = re.compile(r"as\s+(\w+)")
_SHORTEST = 3
"""A shorter half says little."""


@dataclass(frozen=True)
class NextEdit:
    """`text` for [start, end) of a document. `why` is for the user."""

    start: int
    end: int
    text: str
    why: str = field(default="", compare=False)

    def change(self, text: str) -> TextChange:
        """What it changes in the document's text."""
        return TextChange(self.start, text[self.start : self.end], self.text)

    def after(self, change: TextChange) -> "NextEdit | None":
        """The same edit after a change; None if that touched its place."""
        if change.start < self.end and self.start < change.end:
            return None
        shift = change.shift if change.end <= self.start else 0
        return replace(self, start=self.start + shift, end=self.end + shift)


def trimmed(start: int, old: str, new: str, why: str = "") -> NextEdit:
    """The edit that replaces `old` at `start`, without what both texts share at their ends, in whole words."""
    first = minimal_change(old, new).start
    while first and is_word(old[first - 1]) and any(is_word(text[first : first + 1]) for text in (old, new)):
        first -= 1
    most = min(len(old), len(new)) - first
    last = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    while last and is_word(old[-last]) and any(is_word(text[first : len(text) - last][-1:]) for text in (old, new)):
        last -= 1
    return NextEdit(start + first, start + len(old) - last, new[first : len(new) - last], why)


def errors_after(now: Source, edits: Sequence[NextEdit]) -> int | None:
    """The number of errors in the tree after edits, in order; None if unknown."""
    spans = [Span(edit.start, edit.end, HoleKind.EXPRESSION) for edit in edits]
    return errors_with(now, spans, [edit.text for edit in edits])


@dataclass(frozen=True)
class Compared:
    """An earlier text and the current one: their differences and names."""

    texts: Comparison
    old: Names
    new: Names

    @classmethod
    def of(cls, now: Source, names: Names, text: str) -> "Compared | None":
        """An earlier `text` and the current one with its names; None if the earlier one has no tree."""
        if now.tree is None:
            return None
        change, tree = minimal_change(now.text, text), now.tree.copy()
        edit_tree(tree, now.text, change.start, change.end, change.added)
        old = Names.of(Source(text, now.language_id, parse(now.language_id, text, tree), now.uri))
        return None if old is None else cls(Comparison(text, now.text), old, names)

    def renamed(self, places: Iterable[tuple[int, int]] = ()) -> Iterator[tuple[Name, Name]]:
        """The names that became others of the same role, by substituted words, and at more `places` of both texts."""
        for old_at, at in (*self.texts.renamed, *places):
            old = self.old.at(old_at)
            new = self.new.at(at)
            if old is not None and new is not None and old.role == new.role:
                yield old, new


def after_renames(compared: Compared) -> Iterator[NextEdit]:
    """The places that still have the old name."""
    for old, new in compared.renamed(_aliased(compared)):
        if _became_many(compared, old, new):
            continue
        if new.role is Role.MEMBER:
            yield from _edits(compared, uses_of_member(compared.old, compared.new, old, new), old, new)
        elif new.binder is not None:
            yield from _edits(compared, _uses_of_binding(compared, old, new), old, new)
        elif new.role is Role.USE and _is_gone(compared.new, old.text) and compared.new.binder_of(new):
            uses = (name for name in compared.new.all(old.text) if name.role is Role.USE)
            yield from _edits(compared, uses, old, new)


def _became_many(compared: Compared, old: Name, new: Name) -> bool:
    """Whether a parameter or a field now holds several of what it was: its uses need more than the new name."""
    if new.role not in (Role.PARAMETER, Role.MEMBER) or new.above[0].type in compared.new.view.table.functions:
        return False
    was = _declared(compared.old, old)
    now = _declared(compared.new, new)
    return was != now and bool(_MANY.search(now)) and not _MANY.search(was)


def _declared(names: Names, name: Name) -> str:
    """The declaration of a parameter, or the line of a field, without the name."""
    text = names.view.text
    line = text[line_start(text, name.start) : line_end(text, name.end)]
    code = names.view.code(declaration(names, name)) if name.role is Role.PARAMETER else line
    return "".join(code.replace(name.text, "", 1).split())


def renamed_words(compared: Compared) -> set[tuple[tuple[str, ...], str]]:
    """The old and new names of the definitions with a new name. Their other places are those of the binding."""
    found = (pair for pair in compared.renamed() if pair[1].binder is not None or pair[1].role is Role.MEMBER)
    return {((old.text,), new.text) for old, new in found}


def _aliased(compared: Compared) -> Iterator[tuple[int, int]]:
    """Whether an import got another name: `as name` was added behind it."""
    old, new = compared.texts.old, compared.texts.new
    for hunk in compared.texts.hunks:
        if alias := _ALIAS.fullmatch(new, hunk.start, hunk.end):
            end = end_of_text_before(old, hunk.old_start)
            if hunk.old_start == hunk.old_end and (word := word_before(old, end)):
                yield end - len(word), alias.start(1)


def _is_gone(names: Names, word: str) -> bool:
    """Whether the file binds no name in it, as far as can be told."""
    builtins = names.rules.builtins
    return bool(builtins) and word not in builtins and not any(name.binder for name in names.all(word))


def _edits(compared: Compared, uses: Iterable[Name], old: Name, new: Name) -> Iterator[NextEdit]:
    why = f"rename {old.text} to {new.text}"
    for use in uses:
        if not compared.texts.is_new(use.start, use.end):
            both = (new.text, use.text) if use.joint == " as " else (use.text, new.text)  # an export keeps its name
            yield NextEdit(use.start, use.end, use.joint.join(both) if use.joint else new.text, why)


def _uses_of_binding(compared: Compared, old: Name, new: Name) -> Iterator[Name]:
    """The places that the old name's binding reaches. Its scope is the new name's, since only the name has changed."""
    names, scope = compared.new, new.binder
    if scope is None or _was_known(compared.old, old, new.text):
        return
    inside = [name for name in names.all(old.text) if scope.id in name.scopes or name.binder == scope]
    plain = [name for name in inside if name.role in (Role.USE, Role.DEFINITION)]
    own = [name for name in plain if is_bound_in(names, name, scope.id)]
    redeclared = names.rules.redeclared
    declared = (new, *(name for name in own if name.binder == scope))
    heads = [name.above[0] for name in declared if name.above[0].type in redeclared]
    if len({_parameter_types(names, head) for head in heads}) > 1:  # overloads
        return
    if any(name.binder == scope and name.above[0].type not in redeclared for name in own):
        own = own if new.role is Role.PARAMETER else list(_until_bound_again(names, own, new))
    for name in own:
        if not _is_hidden(names, name, new, scope.id):
            yield name
    if new.role is Role.PARAMETER:
        yield from _keywords(compared, old, new)


def _parameter_types(names: Names, head: Node) -> tuple[str, ...]:
    """The types of a declared function's parameters; where one has no name, only their number counts."""
    listed = head.child_by_field_name("parameters")
    codes = [] if listed is None else [names.view.code(each) for each in listed.named_children]
    types = [re.sub(r"\s*\b\w+$", "", code) for code in codes]
    return tuple("".join(each.split()) for each in types) if all(types) else tuple("?" for _ in codes)


def _was_known(names: Names, old: Name, word: str) -> bool:
    """Whether the new name already had a meaning where the old one was bound, so that this is no rename."""
    scope = old.binder
    if scope is None:
        return True
    found = [name for name in names.all(word) if name.role in (Role.USE, Role.DEFINITION, Role.PARAMETER)]
    binding = {name.binder.id for name in found if name.binder is not None and name.binder != scope}
    reaching = (name for name in found if name.binder == scope or scope.id in name.scopes)
    return any(binding.isdisjoint(takewhile(lambda each: each != scope.id, name.scopes)) for name in reaching)


def _is_hidden(names: Names, name: Name, new: Name, scope: int) -> bool:
    """Whether the new name already means something else at the place of `name`."""
    binding = names.binding(new.text)
    return any(each in binding for each in takewhile(lambda each: each != scope, name.scopes))


def _until_bound_again(names: Names, own: list[Name], new: Name) -> Iterator[Name]:
    """The names that the renamed definition reaches, if others also define the old name in its scope."""
    if own[0].start < new.start:
        return
    block = _block(names, new)
    for name in own:
        if name.binder is not None:
            shadowing = next((node for node in name.above[:3] if node.type in _SHADOWING), None)
            if shadowing is not None:  # only its value still means the old one
                inside = range(shadowing.start_byte, shadowing.end_byte)
                yield from (use for use in own if use.binder is None and use.node.start_byte in inside)
                return
            defining = statement(names, name)
            goes_on = len(re.findall(rf"(?<!\w){re.escape(name.text)}(?!\w)", defining)) > 1
            inner = _block(names, name) != block and any(node == block for node in name.above)
            if not (goes_on or inner):
                return
        yield name


def _block(names: Names, name: Name) -> Node | None:
    return next((node for node in name.above if node.type in names.view.table.blocks), None)


def _keywords(compared: Compared, old: Name, new: Name) -> Iterator[Name]:
    """The arguments that use a parameter's old name."""
    function = function_name(compared.new, new)
    if function is None:
        return
    for name in compared.new.all(old.text):
        if name.role is Role.KEYWORD and calls(compared.new, name, name.receiver, function):
            yield name


def after_halves(compared: Compared) -> Iterator[NextEdit]:
    """The whole name in place of a renamed one's new half, and of the old name where that means nothing now."""
    for old, new in compared.renamed():
        full = _whole(compared.new, old, new)
        if full is None:
            continue
        why = f"complete {new.text} to {full}"
        yield NextEdit(new.start, new.end, full, why)
        for name in compared.new.all(old.text):
            is_alike = (name.role is Role.FIELD) is (new.role is Role.FIELD)
            if is_alike and not name.joint and _is_lost(compared.new, name):
                yield NextEdit(name.start, name.end, full, why)


def _whole(names: Names, old: Name, half: Name) -> str | None:
    """The only name that a half means: it exists, and the half is no name. None if that is not certain."""
    if len(half.text) < _SHORTEST or half.joint or half.text in names.rules.builtins:
        return None
    words = set(re.findall(rf"(?<!\w){re.escape(half.text)}\w+", names.view.text)) - {old.text}
    if half.binder is not None:  # a definition: others use its whole name already
        found = [word for word in words if (uses := names.all(word)) and all(_is_lost(names, use) for use in uses)]
        used = len(names.all(half.text)) > 1
    elif half.role is Role.USE:
        found = [word for word in words if names.definitions(word, half)]
        used = bool(names.binder_of(half))
    elif half.role is Role.FIELD and half.owner:
        found = [word for word in words if half.owner in names.owners_of(word)]
        used = bool(names.owners_of(half.text))
    else:
        return None
    return found[0] if len(found) == 1 and not used else None


def _is_lost(names: Names, name: Name) -> bool:
    """Whether a name in the code means nothing that the file defines or imports."""
    if name.role is Role.FIELD:
        return bool(name.owner) and name.owner not in names.owners_of(name.text)
    return name.role is Role.USE and name.text not in names.rules.builtins and not names.binder_of(name)

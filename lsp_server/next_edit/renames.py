"""Finds what no longer fits after a rename: the other places of the same binding, member or argument.

Offers only places that certainly meant the old name, not a name that something else also binds or the new name would
hide.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from tree_sitter import Node

from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.recent import Comparison
from lsp_server.syntax.lines import end_of_text_before, word_before

_ALIAS = re.compile(r"as\s+(\w+)")
_DISTINCT = re.compile(r"\w_\w|[a-z][A-Z]|^_\w{3}")
"""A name of several words, or a private one, hardly belongs to an unrelated member."""


@dataclass(frozen=True)
class NextEdit:
    """`text` for [start, end) of a document. `why` is for the user."""

    start: int
    end: int
    text: str
    why: str


@dataclass(frozen=True)
class Compared:
    """An earlier text and the current one: their differences and names."""

    texts: Comparison
    old: Names
    new: Names


def after_renames(compared: Compared) -> Iterator[NextEdit]:
    """The places that still have the old name."""
    for old_at, at in (*compared.texts.renamed, *_aliased(compared)):
        old, new = compared.old.at(old_at), compared.new.at(at)
        if old is None or new is None or old.role != new.role:
            continue
        if new.binder is not None or new.role is Role.MEMBER:
            yield from _places(compared, old, new)
        elif new.role is Role.USE and _is_gone(compared.new, old.text) and compared.new.binder_of(new):
            uses = (name for name in compared.new.all(old.text) if name.role is Role.USE)
            yield from _edits(compared, uses, old, new)


def renamed_words(compared: Compared) -> set[tuple[tuple[str, ...], str]]:
    """The old and new names of the definitions with a new name. Their other places are those of the binding."""
    pairs = ((compared.old.at(old_at), compared.new.at(at)) for old_at, at in compared.texts.renamed)
    return {
        ((old.text,), new.text)
        for old, new in pairs
        if old is not None and new is not None and (new.binder is not None or new.role is Role.MEMBER)
    }


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


def _places(compared: Compared, old: Name, new: Name) -> Iterator[NextEdit]:
    """The places that a renamed definition reaches."""
    find = _uses_of_member if new.role is Role.MEMBER else _uses_of_binding
    yield from _edits(compared, find(compared, old, new), old, new)


def _edits(compared: Compared, uses: Iterable[Name], old: Name, new: Name) -> Iterator[NextEdit]:
    why = f"rename {old.text} to {new.text}"
    for use in uses:
        if not compared.texts.is_new(use.start, use.end):
            yield NextEdit(use.start, use.end, f"{use.text}{use.joint}{new.text}" if use.joint else new.text, why)


def _uses_of_binding(compared: Compared, old: Name, new: Name) -> Iterator[Name]:
    """The places that the old name's binding reaches. Its scope is the new name's, since only the name has changed."""
    names, scope = compared.new, new.binder
    if scope is None or _was_known(compared.old, old, new.text):
        return
    inside = [name for name in names.all(old.text) if scope.id in name.scopes or name.binder == scope]
    plain = [name for name in inside if name.role in (Role.USE, Role.DEFINITION)]
    own = [name for name in plain if _is_bound_in(names, name, scope.id)]
    if any(name.binder == scope for name in own):
        own = own if new.role is Role.PARAMETER else list(_until_bound_again(names, own, new))
    for name in own:
        if not _is_hidden(names, name, new, scope.id):
            yield name
    if new.role is Role.PARAMETER:
        yield from _keywords(compared, old, new)


def _was_known(names: Names, old: Name, word: str) -> bool:
    """Whether the new name already had a meaning where the old one was bound, so that this is no rename."""
    scope = old.binder
    if scope is None:
        return True
    found = [name for name in names.all(word) if name.role in (Role.USE, Role.DEFINITION, Role.PARAMETER)]
    binding = {name.binder.id for name in found if name.binder is not None and name.binder != scope}
    reaching = (name for name in found if name.binder == scope or scope.id in name.scopes)
    return any(binding.isdisjoint(takewhile(lambda each: each != scope.id, name.scopes)) for name in reaching)


def _is_bound_in(names: Names, name: Name, scope: int) -> bool:
    """Whether nothing between a name and `scope` binds it."""
    if name.binder is not None:
        return name.binder.id == scope
    binding = {each.binder.id for each in names.all(name.text) if each.binder is not None} | {scope}
    return next((each for each in name.scopes if each in binding), 0) == scope


def _is_hidden(names: Names, name: Name, new: Name, scope: int) -> bool:
    """Whether the new name already means something else at the place of `name`."""
    binding = {each.binder.id for each in names.all(new.text) if each.binder is not None}
    return any(each in binding for each in takewhile(lambda each: each != scope, name.scopes))


def _until_bound_again(names: Names, own: list[Name], new: Name) -> Iterator[Name]:
    """The names that the renamed definition reaches, if others also define the old name in its scope.

    It reaches past definitions made from the old value, or in a block inside its own.
    """
    if own[0].start < new.start:
        return
    block = _block(names, new)
    for name in own:
        if name.binder is not None:
            statement = _statement(names, name)
            goes_on = len(re.findall(rf"(?<!\w){re.escape(name.text)}(?!\w)", statement)) > 1
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


def function_name(names: Names, parameter: Name) -> Name | None:
    """The name of the function that a parameter belongs to, if only one function has that name."""
    node = None if parameter.binder is None else parameter.binder.child_by_field_name("name")
    function = None if node is None else names.at(names.view.start(node))
    if function is None or function.text == "__init__":
        return function
    named = [name for name in names.all(function.text) if name.role in (Role.DEFINITION, Role.MEMBER, Role.PARAMETER)]
    return function if len(named) == 1 else None


def calls(names: Names, at: Name, called: str, function: Name) -> bool:
    """Whether the callee at a name is `function`, as far as the text shows."""
    receiver, dot, last = called.rpartition(".")
    if function.role is not Role.MEMBER:
        return not dot and last == function.text
    if not dot and names.rules.members_in_scope and function.binder is not None:
        return last == function.text and names.binder_of(at) == function.binder.id
    if function.text == "__init__":
        return called == function.owner
    return last == function.text and bool(dot) and is_of(names, at, receiver, function.owner, last)


def is_of(names: Names, at: Name, receiver: str, owner: str, member: str) -> bool:
    """Whether `receiver` is probably an `owner`: by its name, by its definition, or because no other class has such a
    member.
    """
    if itself := names.itself(at, receiver):
        return itself == owner
    return receiver == owner or bool(_DISTINCT.search(member)) or _was_made(names, at, receiver, owner)


def _was_made(names: Names, at: Name, receiver: str, owner: str) -> bool:
    """Whether the definition of `receiver` names `owner`, as `x = Owner()` and `x: Owner` do."""
    definitions = [name for name in names.all(receiver) if name.binder is not None and name.binder.id in at.scopes]
    return bool(definitions) and all(
        re.search(rf"(?<!\w){re.escape(owner)}(?!\w)", _statement(names, name)) for name in definitions
    )


def _statement(names: Names, name: Name) -> str:
    """The first line of the code that defines a name; for a parameter, only the parameter."""
    node = next((each for each in name.above if each.byte_range != name.node.byte_range), name.node)
    if node.type in names.view.table.argument_lists:
        return name.text
    return names.view.code(node).partition("\n")[0][:200]


def _uses_of_member(compared: Compared, old: Name, new: Name) -> Iterator[Name]:
    """Uses of a renamed member, in its class and wherever the receiver identifies it."""
    names, owner = compared.new, old.owner
    if not owner or any(name.owner == owner for name in compared.old.all(new.text)):
        return
    members = [name for name in compared.old.all(old.text) if name.role is Role.MEMBER]
    mine = [name for name in members if name.owner == owner]
    if not mine or mine[0].start != old.start:  # it was already defined
        return
    alone = len(mine) == len(members)
    left = [name for name in names.all(old.text) if name.role is Role.MEMBER and name.owner == owner]
    if any(name.receiver == "" for name in left):  # it still has a definition
        return
    for name in names.all(old.text):
        if _means_member(names, name, new, alone=alone):
            yield name


def _means_member(names: Names, name: Name, new: Name, *, alone: bool) -> bool:
    """Whether `name` means the member that is now called `new`. `alone`: no other class has a member of that name."""
    match name.role:
        case Role.MEMBER | Role.FIELD if name.owner:
            return name.owner == new.owner
        case Role.FIELD:
            return alone and is_of(names, name, name.receiver, new.owner, name.text)
        case Role.KEYWORD:
            return alone and name.receiver == new.owner
        case Role.USE:
            return new.binder is not None and _is_bound_in(names, name, new.binder.id)
    return False

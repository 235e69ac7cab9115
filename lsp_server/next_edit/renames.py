"""Completes renames: finds the other occurrences of the same binding, member or argument, if certain."""

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from tree_sitter import Node

from lsp_server.next_edit.edits import NextEdit
from lsp_server.next_edit.members import (
    defining_line,
    is_bound_by_scope,
    is_call_of,
    parameter_declaration,
    unique_function_of_parameter,
    uses_of_member,
)
from lsp_server.next_edit.name_diff import NameDiff
from lsp_server.next_edit.names import NameIndex, Occurrence, Role
from lsp_server.syntax.lines import end_of_text_before, line_end, line_start, word_before

_SHADOWING = frozenset({"let_declaration"})
"""Kinds of definitions that replace an earlier one of the same name."""
_COLLECTION = re.compile(r"\[|(?i:list|vec|set|array|sequence|iterable|collection|slice)\b.*[<\[]")
"""A type that holds several values."""
_ALIAS = re.compile(r"as\s+(\w+)")


def complete_renames(diff: NameDiff) -> Iterator[NextEdit]:
    """Renames the occurrences that still have the old name."""
    for old, new in diff.renamed_pairs(_alias_offsets(diff)):
        if _became_collection(diff, old, new):
            continue
        if new.role is Role.MEMBER:
            yield from _rename_edits(diff, uses_of_member(diff.old_names, diff.new_names, old, new), old, new)
        elif new.binder is not None:
            yield from _rename_edits(diff, _uses_of_binding(diff, old, new), old, new)
        elif new.role is Role.USE and _is_unbound(diff.new_names, old.text) and diff.new_names.binding_scope_id(new):
            uses = (name for name in diff.new_names.occurrences(old.text) if name.role is Role.USE)
            yield from _rename_edits(diff, uses, old, new)


def _became_collection(diff: NameDiff, old: Occurrence, new: Occurrence) -> bool:
    """Whether a parameter or field is now a collection: its uses need more than the new name."""
    if new.role not in (Role.PARAMETER, Role.MEMBER) or new.ancestors[0].type in diff.new_names.view.table.functions:
        return False
    old_code = _declaration_without_name(diff.old_names, old)
    new_code = _declaration_without_name(diff.new_names, new)
    return old_code != new_code and bool(_COLLECTION.search(new_code)) and not _COLLECTION.search(old_code)


def _declaration_without_name(names: NameIndex, name: Occurrence) -> str:
    """The declaration of a parameter, or the line of a field, without the name."""
    text = names.view.text
    line = text[line_start(text, name.start) : line_end(text, name.end)]
    code = names.view.code(parameter_declaration(names, name)) if name.role is Role.PARAMETER else line
    return "".join(code.replace(name.text, "", 1).split())


def _alias_offsets(diff: NameDiff) -> Iterator[tuple[int, int]]:
    """The offsets of imported names, and of the aliases that were added to them as `as name`."""
    old, new = diff.text_diff.old, diff.text_diff.new
    for words in diff.text_diff.changed_words:
        if alias := _ALIAS.fullmatch(new, words.start, words.end):
            end = end_of_text_before(old, words.old_start)
            if words.old_start == words.old_end and (word := word_before(old, end)):
                yield end - len(word), alias.start(1)


def _is_unbound(names: NameIndex, word: str) -> bool:
    """Whether the file, as far as it is parsed, does not bind this name."""
    builtins = names.rules.builtins
    return bool(builtins) and word not in builtins and not any(name.binder for name in names.occurrences(word))


def _rename_edits(diff: NameDiff, uses: Iterable[Occurrence], old: Occurrence, new: Occurrence) -> Iterator[NextEdit]:
    why = f"rename {old.text} to {new.text}"
    for use in uses:
        if not diff.text_diff.has_new_text(use.start, use.end):
            texts = (new.text, use.text) if use.joint == " as " else (use.text, new.text)  # an export keeps its name
            yield NextEdit(use.start, use.end, use.joint.join(texts) if use.joint else new.text, why)


def _uses_of_binding(diff: NameDiff, old: Occurrence, new: Occurrence) -> Iterator[Occurrence]:
    """The uses that the old name's binding reaches. Its scope is the new name's, since only the name has changed."""
    names, scope = diff.new_names, new.binder
    if scope is None:
        return
    inside = [name for name in names.occurrences(old.text) if scope.id in name.scopes or name.binder == scope]
    plain = [name for name in inside if name.role in (Role.USE, Role.DEFINITION)]
    own = [name for name in plain if is_bound_by_scope(names, name, scope.id)]
    redeclared = names.rules.redeclared
    declared = (new, *(name for name in own if name.binder == scope))
    heads = [name.ancestors[0] for name in declared if name.ancestors[0].type in redeclared]
    if len({_parameter_types(names, head) for head in heads}) > 1:  # overloads
        return
    if any(name.binder == scope and name.ancestors[0].type not in redeclared for name in own):
        own = own if new.role is Role.PARAMETER else list(_until_rebound(names, own, new))
    for name in own:
        if not _is_hidden(names, name, new, scope.id):
            yield name
    if new.role is Role.PARAMETER:
        yield from _keyword_arguments(diff, old, new)


def _parameter_types(names: NameIndex, head: Node) -> tuple[str, ...]:
    """The types of a declared function's parameters; where one has no name, only their number counts."""
    list_node = head.child_by_field_name("parameters")
    codes = [] if list_node is None else [names.view.code(parameter) for parameter in list_node.named_children]
    types = [re.sub(r"\s*\b\w+$", "", code) for code in codes]
    return tuple("".join(type_.split()) for type_ in types) if all(types) else tuple("?" for _ in codes)


def _is_hidden(names: NameIndex, name: Occurrence, new: Occurrence, scope: int) -> bool:
    """Whether the new name already means something else where `name` is."""
    binding = names.binding_scope_ids(new.text)
    return any(inner in binding for inner in takewhile(lambda inner: inner != scope, name.scopes))


def _until_rebound(names: NameIndex, own: list[Occurrence], new: Occurrence) -> Iterator[Occurrence]:
    """The names up to the next definition of the old name in its scope, to which the renamed definition applies."""
    if own[0].start < new.start:
        return
    block = _block(names, new)
    for name in own:
        if name.binder is not None:
            shadowing = next((node for node in name.ancestors[:3] if node.type in _SHADOWING), None)
            if shadowing is not None:  # only its value still means the old one
                inside = range(shadowing.start_byte, shadowing.end_byte)
                yield from (use for use in own if use.binder is None and use.node.start_byte in inside)
                return
            defining = defining_line(names, name)
            goes_on = len(re.findall(rf"(?<!\w){re.escape(name.text)}(?!\w)", defining)) > 1
            inner = _block(names, name) != block and any(node == block for node in name.ancestors)
            if not (goes_on or inner):
                return
        yield name


def _block(names: NameIndex, name: Occurrence) -> Node | None:
    return next((node for node in name.ancestors if node.type in names.view.table.blocks), None)


def _keyword_arguments(diff: NameDiff, old: Occurrence, new: Occurrence) -> Iterator[Occurrence]:
    """The arguments that use a parameter's old name."""
    function = unique_function_of_parameter(diff.new_names, new)
    if function is None:
        return
    for name in diff.new_names.occurrences(old.text):
        if name.role is Role.KEYWORD and is_call_of(diff.new_names, name, name.receiver, function):
            yield name

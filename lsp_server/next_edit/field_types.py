"""Finds what no longer fits after a field got another type: the parameters stored in it, and what returns it."""

import re
from collections.abc import Iterator

from lsp_server.next_edit.fields import Field, field_in
from lsp_server.next_edit.members import declaration
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit
from lsp_server.syntax.lines import line_start

_RETURNED = ("return_type", "result", "type")
"""The fields of a function's node that may hold the type of its result."""
_NO_TYPE = re.compile(r"[?!]:|//|/\*|#|[`@]")
"""What a declaration has beside a name and a type: a mark, a comment, a tag or an annotation."""
_BEFORE_TYPE = re.compile(r"(?:->|:)?\s*")


def after_field_types(compared: Compared) -> Iterator[NextEdit]:
    """The places that still have a field's old type."""
    for old, new in _changed(compared):
        yield from _stored(compared, old, new)
        yield from _returned(compared, old, new)


def retyped(compared: Compared) -> set[tuple[str, str]]:
    """The old and new types of the fields with another type. Their other places are those above."""
    return {(_type(old), _type(new)) for old, new in _changed(compared)}


def _changed(compared: Compared) -> Iterator[tuple[Field, Field]]:
    """The fields with another type, as they were and as they are."""
    texts = compared.texts
    for hunk in texts.hunks:
        old = field_in(compared.old, line_start(texts.old, hunk.old_start))
        new = field_in(compared.new, line_start(texts.new, hunk.start))
        if old is None or new is None or (old.name.text, old.name.owner) != (new.name.text, new.name.owner):
            continue
        if old.declared != new.declared and _type(old) and _type(new):
            yield old, new


def _type(field: Field) -> str:
    """The declared type of a field; empty if that is not certain."""
    around = re.split(rf"(?<!\w){re.escape(field.name.text)}(?!\w)", field.declared, maxsplit=1)
    if len(around) != 2 or all(around) or _NO_TYPE.search(field.declared):
        return ""
    left, right = around
    return left.strip() or right.strip().removeprefix(":").strip()


def _stored(compared: Compared, old: Field, new: Field) -> Iterator[NextEdit]:
    """The parameters of the old type whose value the field gets."""
    names, word = compared.new, new.name.text
    for other in {word, word[:1].lower() + word[1:], word.lstrip("_") or word}:
        declared = re.sub(rf"\b{re.escape(word)}\b", other, old.declared)
        for name in names.all(other):
            if name.role is not Role.PARAMETER or name.binder is None or not _is_stored(names, name, new):
                continue
            around = declaration(names, name)
            code = " ".join(names.view.code(around).split())
            if code == declared and not compared.texts.is_new(names.view.start(around), names.view.end(around)):
                start = names.view.start(around)
                text = re.sub(rf"\b{re.escape(word)}\b", other, new.declared)
                yield NextEdit(start, names.view.end(around), text, f"{word} is {_type(new)} now")


def _is_stored(names: Names, parameter: Name, field: Field) -> bool:
    """Whether a function makes the field's owner and gives the field a parameter's value."""
    function, (word, other) = parameter.binder, (re.escape(field.name.text), re.escape(parameter.text))
    code = "" if function is None else names.view.code(function)
    if names.owner(parameter.above) != field.name.owner and not re.search(rf"\b{re.escape(field.name.owner)}\b", code):
        return False
    shorthand = rf"|\{{(?:[^{{}}]*,)?\s*{word}\s*[,}}]" if word == other else ""
    return (
        re.search(rf"(?:this|self)\.{word} *= *{other}\b(?! *[.(\[*/+-])|\b{word}: *{other} *[,}}\n]{shorthand}", code)
        is not None
    )


def _returned(compared: Compared, old: Field, new: Field) -> Iterator[NextEdit]:
    """The result types of methods that only return the field."""
    names = compared.new
    view = compared.new.view
    word = new.name.text
    for name in names.all(word):
        function = next((node for node in name.above if node.type in view.table.functions), None)
        body = None if function is None else function.child_by_field_name("body")
        if function is None or body is None or names.owner(name.above) != new.name.owner:
            continue
        if name.role is Role.PARAMETER or (name.role is Role.USE and names.binder_of(name) == function.id):
            continue
        if not re.fullmatch(rf"\{{?\s*(?:return )?(?:\w+\.)?{re.escape(word)}\s*;?\s*\}}?", view.code(body).strip()):
            continue
        result = next((node for each in _RETURNED if (node := function.child_by_field_name(each)) is not None), None)
        if result is None:
            continue
        found = _BEFORE_TYPE.match(view.code(result))
        start = view.start(result) + (found.end() if found else 0)
        if view.text[start : view.end(result)] == _type(old):
            yield NextEdit(start, view.end(result), _type(new), f"{word} is {_type(new)} now")

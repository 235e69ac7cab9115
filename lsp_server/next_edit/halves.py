"""Finds names of which the user has typed a half: it is completed where it was typed, and wherever the old name is."""

import re
from collections.abc import Iterator

from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit

_SHORTEST = 3
"""A shorter half says little."""


def after_halves(compared: Compared) -> Iterator[NextEdit]:
    """The whole name in place of a renamed one's new half, and of the old name where that means nothing now."""
    for old_at, at in compared.texts.renamed:
        old = compared.old.at(old_at)
        new = compared.new.at(at)
        full = None if old is None or new is None or old.role != new.role else _whole(compared.new, old, new)
        if old is None or new is None or full is None:
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
        found = [word for word in words if not _is_lost_word(names, word, half)]
        used = bool(names.binder_of(half))
    elif half.role is Role.FIELD and half.owner:
        found = [word for word in words if half.owner in {name.owner for name in names.all(word) if _is_member(name)}]
        used = any(_is_member(name) for name in names.all(half.text))
    else:
        return None
    return found[0] if len(found) == 1 and not used else None


def _is_member(name: Name) -> bool:
    return name.role is Role.MEMBER


def _is_lost(names: Names, name: Name) -> bool:
    """Whether a name in the code means nothing that the file defines or imports."""
    if name.role is Role.FIELD:
        return bool(name.owner) and not any(
            each.owner == name.owner and _is_member(each) for each in names.all(name.text)
        )
    return name.role is Role.USE and name.text not in names.rules.builtins and not names.binder_of(name)


def _is_lost_word(names: Names, word: str, at: Name) -> bool:
    """Whether a word is no name that is visible there."""
    return not any(name.binder is not None and name.binder.id in at.scopes for name in names.all(word))

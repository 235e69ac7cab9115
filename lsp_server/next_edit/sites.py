"""The sites of a change: the lines in which one run of tokens was replaced."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.recent import Comparison
from lsp_server.next_edit.renames import Compared
from lsp_server.syntax.languages.table import kinds
from lsp_server.syntax.lines import line_end, line_start
from lsp_server.syntax.view import View

STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
TOKEN = re.compile(rf"{STRING}|\w+|[^\w\s]")
EDGE = "\n"
"""A token for the start or the end of a line."""
_CONTEXT_TOKENS = 5
_VALUE = rf"{STRING}|\d\w*|None|nil|null|undefined|[Tt]rue|[Ff]alse|-|\."
_CALCULATION = rf"{STRING}|\d\w*|[-+*/%<>]"
"""Another value, or another calculation with values, rarely concerns other lines."""
_MODIFIERS = kinds(
    "abstract async const constexpr export extern final inline internal mutable open override private protected pub",
    "public readonly sealed static synchronized virtual volatile",
)
"""Words in front of a definition concern it alone."""
_NOTHING = frozenset({"None", "nil", "null", "undefined", "True", "False", "true", "false"})


@dataclass(frozen=True)
class Site:
    """A line in which one run of tokens was replaced: the old and new tokens, and those around them.

    `kind` is that of the string or comment around it, `place` where `added` is now, `name` what was replaced. `alone`:
    the edit says nothing about other lines unless it is repeated.
    """

    removed: tuple[str, ...]
    added: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    kind: str
    place: tuple[int, int]
    alone: bool
    name: Name | None


def sites(compared: Compared) -> Iterator[Site]:
    """The sites, in order."""
    texts, seen = compared.texts, set[int]()
    for hunk in compared.texts.hunks:
        start = line_start(texts.new, hunk.start)
        old_start = line_start(texts.old, hunk.old_start)
        end = line_end(texts.new, hunk.end)
        old_end = line_end(texts.old, hunk.old_end)
        if texts.added_lines(hunk):
            continue
        if start not in seen and "\n" not in texts.new[start:end] + texts.old[old_start:old_end]:
            seen.add(start)
            site = _site(compared, (old_start, old_end), (start, end))
            if site is not None:
                yield site


def _site(compared: Compared, old: tuple[int, int], new: tuple[int, int]) -> Site | None:
    """The one run of tokens in which two lines differ; None if they differ only in white space."""
    texts = compared.texts
    olds = list(TOKEN.finditer(texts.old, *old))
    news = list(TOKEN.finditer(texts.new, *new))
    was = [match[0] for match in olds]
    now = [match[0] for match in news]
    left = same(was, now)
    right = same(was[left:][::-1], now[left:][::-1])
    last, new_last = len(was) - right, len(now) - right
    if not olds or (last == left and new_last == left):
        return None
    if last == left:
        text = _inserted(texts, olds, news, left, new_last)
    else:
        text = texts.new[news[left].start() : news[new_last - 1].end()] if new_last > left else ""
    if text is None:
        return None
    before = [EDGE, *was[:left]][-_CONTEXT_TOKENS:]
    after = [*was[last:], EDGE][:_CONTEXT_TOKENS]
    at = olds[left].start() if left < len(olds) else olds[-1].start()
    place = (news[left].start(), news[new_last - 1].end()) if new_last > left else (0, 0)
    starts = [at, *(match.start() for match in olds[left:last])]
    defines = any(_defines(compared.old, offset) or _heads(compared.old, offset) for offset in starts)
    kind = kind_at(compared.old.view, at)
    shares_word = any(map(str.isidentifier, was[:left] + was[last:]))
    name = compared.old.at(at) if last - left == 1 else None
    alone = defines or not shares_word or _is_own(compared, was[:left], was[left:last], place, kind=kind)
    return Site(tuple(was[left:last]), text, tuple(before), tuple(after), kind, place, alone, name)


def _inserted(
    texts: Comparison, olds: Sequence[re.Match[str]], news: Sequence[re.Match[str]], left: int, last: int
) -> str | None:
    """The text inserted between two tokens, with its white space; None if it replaced other white space."""
    if not left:
        return texts.new[news[0].start() : news[last].start()]
    gap = texts.old[olds[left - 1].end() : olds[left].start()] if left < len(olds) else ""
    before = texts.new[news[left - 1].end() : news[left].start()]
    end = news[last].start() if last < len(news) else news[-1].end()
    if not gap:
        return before + texts.new[news[left].start() : end]
    return texts.new[news[left].start() : end] if before == gap else None


def same(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of tokens that two lines share at their start."""
    differ = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differ, min(len(one), len(other)))


def _defines(names: Names, offset: int) -> bool:
    """Whether a definition starts there: other definitions have names of their own."""
    name = names.at(offset)
    return name is not None and (name.binder is not None or name.role is Role.MEMBER)


def _heads(names: Names, offset: int) -> bool:
    """Whether a function starts there, or its name behind its class's, or a private member's name."""
    view = names.view
    nodes = view.ancestors(view.leaf_at(offset))
    if not nodes:
        return False
    if nodes[0].type == "private_property_identifier":
        return True
    if len(nodes) > 2 and nodes[1].type == "qualified_identifier" and nodes[2].type == "function_declarator":
        return True
    return any(node.type in view.table.functions and view.start(node) == offset for node in nodes[:3])


def _is_own(
    compared: Compared, before: Sequence[str], removed: Sequence[str], place: tuple[int, int], *, kind: str
) -> bool:
    """Whether an edit concerns its own place only: another value or known name, a parameter, or an attribute."""
    new = compared.texts.new[slice(*place)]
    news = TOKEN.findall(new)
    is_operand = bool(removed and news) or any(each[0].isdigit() or each[0] in "\"'" for each in (*removed, *news))
    if not kind and is_operand and all(re.fullmatch(_CALCULATION, each) for each in (*removed, *news)):
        return True
    if "=" in (new, *removed) and before[-1:] in (["<"], [">"]):  # `<` or `<=`
        return True
    if not kind and _MODIFIERS.issuperset((*removed, *news)):
        return True
    if not kind and any(each[0] in "\"'" and " " in each.strip() for each in news):  # a message
        return True
    if removed:
        value = STRING if kind else _VALUE
        is_value = all(re.fullmatch(value, each) for each in (*removed, *news))
        is_choice = len(removed) == 1 and all(_is_known(compared.new, word) for word in (*removed, new))
        return is_value or (not kind and (is_choice or _NOTHING.issuperset(removed)))
    names = (compared.new.at(place[0] + match.start()) for match in TOKEN.finditer(new))
    is_parameter = any(name is not None and name.role is Role.PARAMETER for name in names)
    if new.startswith("->") and news[-1] != "None":  # the type of a result
        return True
    return (is_parameter and before[-1:] != ["("]) or (not kind and before[:1] in (["@"], ["#"]))


def _is_known(names: Names, word: str) -> bool:
    """Whether the file defines a name."""
    return word.isidentifier() and any(name.binder or name.role is Role.MEMBER for name in names.all(word))


def kind_at(view: View, offset: int) -> str:
    """The kind of the string or comment there; empty for code."""
    kinds = view.table.strings | view.table.comments
    return next((node.type for node in view.ancestors(view.leaf_at(offset))[:3] if node.type in kinds), "")

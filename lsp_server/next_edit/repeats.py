"""Finds what no longer fits after editing one of several similar lines.

Two edits with the same replacement show which surrounding tokens matter: those that both share. After a single edit,
only nearly identical lines are similar.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from lsp_server.next_edit.additions import field_in
from lsp_server.next_edit.edit_history import Comparison
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit, renamed_words
from lsp_server.syntax.lines import line_end, line_start

STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
TOKEN = re.compile(rf"{STRING}|\w+|[^\w\s]")
EDGE = "\n"
"""A token for the start or the end of a line."""
_CONTEXT_TOKENS = 5
_VALUE = rf"{STRING}|\d\w*|None|nil|null|undefined|[Tt]rue|[Ff]alse|-|\."
_CALCULATION = rf"{STRING}|\d\w*|[-+*/%<>]"
"""Another value, or another calculation with values, rarely concerns other lines."""
_NOTHING = frozenset({"None", "nil", "null", "undefined", "True", "False", "true", "false"})
_ANY_STRING = f"(?:{STRING})"
_ANY_WORD = r"\w+"
_REPLACED_CONTEXT = (2, 1)
"""The number of tokens before and after that matter once two edits have replaced something."""
_SINGLE_CONTEXT = ((3, 3), (2, 1), (2, 1), (1, 1), (0, 0))
"""The same after a single edit, by the number of tokens that it replaced: the more, the less matters around them."""
_LEAST_TOKENS = {1: 4, 2: 3}
"""The required size of a pattern, by the number of edits; shorter ones match unrelated lines."""
_MOST_SITES = 12
_MOST_REPEATS = 40


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
    is_field = field_in(compared.new, line_start(texts.new, new[0])) is not None
    defines = is_field or any(_defines(compared.old, offset) or _heads(compared.old, offset) for offset in starts)
    kind = compared.old.view.literal_at(at)
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


def after_repeats(compared: Compared) -> Iterator[NextEdit]:
    """The places that look as two changed places did."""
    renamed = renamed_words(compared)
    found = [site for site in sites(compared) if (site.removed, site.added) not in renamed][:_MOST_SITES]
    for one, other in combinations(found, 2):
        if (one.kind, one.removed, one.added) != (other.kind, other.removed, other.added):
            continue
        before = _alike(one.before[::-1], other.before[::-1])[::-1]
        after = _alike(one.after, other.after)
        narrow = (_REPLACED_CONTEXT,) if one.removed else ()
        for left, right in (*narrow, (len(before), len(after))) if before and after else narrow:
            near = before[max(len(before) - left, 0) :], after[:right]
            if _is_telling(one, *near, edits=2):
                yield from _like(compared, one, *near)
                break
    for site in (site for site in found if not site.alone):
        left, right = _SINGLE_CONTEXT[min(len(site.removed), len(_SINGLE_CONTEXT) - 1)]
        left = left if site.removed else _with_receivers(site.before, left)
        near = [*map(_literal, site.before[len(site.before) - left :])], [*map(_literal, site.after[:right])]
        if _is_telling(site, *near, edits=1):
            yield from _like(compared, site, *near)


def _with_receivers(before: Sequence[str], count: int) -> int:
    """The number of last tokens of `before` to take so that they begin with all of `a.b.c`, not with a part of it."""
    while count < len(before) and (before[-count] == "." or before[-count - 1] == "."):
        count += 1
    return count


def _any_like(one: str, other: str) -> str:
    """A regex for any token of the sort of both; empty if they differ in it."""
    if one[0] in "\"'" and other[0] in "\"'":
        return _ANY_STRING
    return _ANY_WORD if one.isalnum() and other.isalnum() else ""


def _alike(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Regexes for the tokens that two lines share from their start; any word where both have one."""
    found = []
    for left, right in zip(one, other, strict=False):
        regex = _literal(left) if left == right else _any_like(left, right)
        if not regex:
            break
        found.append(regex)
    return found


def _literal(token: str) -> str:
    return EDGE if token == EDGE else rf"\b{re.escape(token)}\b" if re.fullmatch(r"\w+", token) else re.escape(token)


def _is_telling(site: Site, before: Sequence[str], after: Sequence[str], edits: int) -> bool:
    """Whether the pattern is specific enough: several tokens, with a word, on both sides of the insertion."""
    around = [token for token in (*before, *after) if token not in (_ANY_WORD, _ANY_STRING)]
    sought = (*around, *map(_literal, site.removed))
    enough = len(sought) >= _LEAST_TOKENS[edits] and any(token.startswith(r"\b") for token in sought)
    return enough and bool(site.removed or (before and after))


def _pattern(before: Sequence[str], removed: Sequence[str], after: Sequence[str]) -> re.Pattern[str]:
    """The group `before` matches the text before, and the group `sought` the text to replace."""
    left, right = [*before], [*after]
    ends = "$" if right[-1:] == [EDGE] else ""
    starts = r"^[ \t]*" if left[:1] == [EDGE] else ""
    left = left[bool(starts) :]
    right = right[: len(right) - bool(ends)]
    first, middle, last = (r"[ \t]*".join(part) for part in (left, removed, right))
    return re.compile(
        rf"(?P<before>{starts}{first}[ \t]*)(?P<sought>{middle})(?=[ \t]*{last}[ \t]*{ends})", re.MULTILINE
    )


def _like(compared: Compared, site: Site, before: Sequence[str], after: Sequence[str]) -> Iterator[NextEdit]:
    """The places of the sought tokens in the current text, with only white space between them; one edit for a line."""
    pattern = _pattern(before, [*map(_literal, site.removed)], after)
    view, texts = compared.new.view, compared.texts
    why = f"again: {' '.join(site.removed)[:40] or 'nothing'} to {site.added.strip()[:40] or 'nothing'}"
    brought = list(_brought(compared.new, site))
    found: list[NextEdit] = []
    for match in islice(pattern.finditer(texts.new), _MOST_REPEATS):
        start, end = match.span("sought")
        leaf = start if end > start else max(start - 1, 0)
        is_done = site.place[0] <= start and end <= site.place[1]
        kind = view.literal_at(leaf)
        if end == start and kind in view.table.strings:  # behind a string is not inside it
            kind = view.literal_at(start)
        if is_done or texts.is_new(start, max(end, start + 1)) or kind != site.kind:
            continue
        if not all(compared.new.has_at(name, leaf) for name in brought) or _was_astray(compared, site, start):
            continue
        if found and "\n" not in (between := texts.new[found[-1].end : start]):
            last = found.pop()
            found.append(NextEdit(last.start, end, last.text + between + site.added, why))
        else:
            found.append(NextEdit(start, end, site.added, why))
    yield from found


def _brought(names: Names, site: Site) -> Iterator[Name]:
    """The names that an edit used and that the file defines."""
    for match in TOKEN.finditer(names.view.text, *site.place):
        name = names.at(match.start())
        if name is not None and name.role in (Role.USE, Role.FIELD, Role.MEMBER):
            yield name


def _was_astray(compared: Compared, site: Site, start: int) -> bool:
    """Whether an edit replaced a name without a meaning, while the one at `start` has one."""
    now = compared.new.at(start) if site.name is not None and site.name.role is Role.USE else None
    if site.name is None or now is None or now.role is not Role.USE:
        return False
    return not compared.old.binder_of(site.name) and bool(compared.new.binder_of(now))

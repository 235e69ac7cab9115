"""Finds what no longer fits after editing one of several similar lines.

Two edits with the same replacement show which surrounding tokens matter: those that both share. After a single edit,
only nearly identical lines are similar.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from lsp_server.next_edit.field_types import retyped
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit, renamed_words
from lsp_server.next_edit.sites import EDGE, STRING, TOKEN, Site, kind_at, same, sites

_ANY_STRING = f"(?:{STRING})"
_ANY_WORD = r"\w+"
_INSIDE = re.compile(r"\w+|\s+|[^\w\s]")
_REPLACED_CONTEXT = (2, 1)
"""The number of tokens before and after that matter once two edits have replaced something."""
_SINGLE_CONTEXT = ((3, 3), (2, 1), (2, 1), (1, 1), (0, 0))
"""The same after a single edit, by the number of tokens that it replaced: the more, the less matters around them."""
_LEAST_TOKENS = {1: 4, 2: 3}
"""The required size of a pattern, by the number of edits; shorter ones match unrelated lines."""
_MOST_SITES = 12
_MOST_REPEATS = 40


@dataclass(frozen=True)
class _Change:
    """A replacement: regexes for the old tokens, the template of the new text, and the literal ones of the regexes."""

    removed: tuple[str, ...]
    added: str
    literal: tuple[str, ...]

    @classmethod
    def of(cls, site: Site) -> "_Change":
        """The replacement at one site."""
        removed = tuple(map(_literal, site.removed))
        return cls(removed, _escaped(site.added), removed)


def after_repeats(compared: Compared) -> Iterator[NextEdit]:
    """The places that look as two changed places did."""
    renamed = renamed_words(compared)
    types = {("".join(old.split()), new) for old, new in retyped(compared)}
    found = [
        site
        for site in sites(compared)
        if (site.removed, site.added) not in renamed and ("".join(site.removed), site.added) not in types
    ][:_MOST_SITES]
    for one, other in combinations(found, 2):
        change = _shared(one, other)
        if change is None:
            continue
        before = _alike(one.before[::-1], other.before[::-1])[::-1]
        after = _alike(one.after, other.after)
        wide = len(before), len(after)
        narrow = (_REPLACED_CONTEXT,) if one.removed else ()
        for left, right in (*narrow, wide) if before and after else narrow:
            near = before[max(len(before) - left, 0) :], after[:right]
            if _is_telling(change, *near, edits=2):
                yield from _like(compared, one, change, *near)
                break
    for site in (site for site in found if not site.alone):
        left, right = _SINGLE_CONTEXT[min(len(site.removed), len(_SINGLE_CONTEXT) - 1)]
        left = left if site.removed else _with_receivers(site.before, left)
        before = [*map(_literal, site.before[len(site.before) - left :])]
        after = [*map(_literal, site.after[:right])]
        if _is_telling(_Change.of(site), before, after, edits=1):
            yield from _like(compared, site, _Change.of(site), before, after)


def _with_receivers(before: Sequence[str], count: int) -> int:
    """The number of last tokens of `before` to take so that they begin with all of `a.b.c`, not with a part of it."""
    while count < len(before) and (before[-count] == "." or before[-count - 1] == "."):
        count += 1
    return count


def _shared(one: Site, other: Site) -> _Change | None:
    """The replacement that two sites have in common; tokens that both kept may differ."""
    if one.kind != other.kind or len(one.removed) != len(other.removed):
        return None
    if one.removed == other.removed and one.added == other.added:
        return _Change.of(one)
    strings = (*one.removed, one.added, *other.removed, other.added)
    if len(strings) == 4 and all(re.fullmatch(STRING, each) for each in strings):
        return _inside(*strings)
    return _with_kept(one, other)


def _with_kept(one: Site, other: Site) -> _Change | None:
    """The replacement in which each site kept tokens of its own, such as `get("a")` to `["a"]`."""
    groups: dict[tuple[str, str], str] = {}
    removed = []
    for pair in zip(one.removed, other.removed, strict=True):
        if pair[0] == pair[1]:
            removed.append(_literal(pair[0]))
        elif any_like := _any_like(*pair):
            removed.append(f"(?P={groups[pair]})" if pair in groups else f"(?P<kept{len(groups)}>{any_like})")
            groups.setdefault(pair, f"kept{len(groups)}")
        else:
            return None
    tokens = list(TOKEN.finditer(one.added))
    others = TOKEN.findall(other.added)
    added, at = "", 0
    for token, pair in zip(tokens, zip((match[0] for match in tokens), others, strict=False), strict=False):
        if pair[0] != pair[1] and pair not in groups:
            return None
        added += _escaped(one.added[at : token.start()])
        added += _escaped(pair[0]) if pair[0] == pair[1] else rf"\g<{groups[pair]}>"
        at = token.end()
    if len(tokens) != len(others) or not groups:
        return None
    return _Change(tuple(removed), added, tuple(token for token in removed if not token.startswith("(?P")))


def _inside(old: str, new: str, other_old: str, other_new: str) -> _Change | None:
    """The replacement inside two strings."""
    run, added, before, after = _run(old, new)
    other_run, other_added, other_before, other_after = _run(other_old, other_new)
    left = same(before[::-1], other_before[::-1])
    right = same(after, other_after)
    before = before[len(before) - left :][-3:]
    after = after[:right][:3]
    is_at_edge = EDGE in before or EDGE in after
    if (run, added) != (other_run, other_added) or not (run or is_at_edge) or old[0] != other_old[0]:
        return None
    other = rf"(?:\\.|[^{old[0]}\\\n])"
    start = old[0] if EDGE in before else f"{old[0]}{other}*?"
    end = old[0] if EDGE in after else f"{other}*{old[0]}"
    texts = ["".join(_literal(token) for token in part if token != EDGE) for part in (before, run, after)]
    not_yet = "" if run else f"(?!{re.escape(added)})"
    regex = f"(?P<left>{start}{texts[0]}){not_yet}{texts[1]}(?P<right>{texts[2]}{end})"
    literal = tuple(_literal(token) for token in (*before, *run, *after) if not token.isspace())
    return _Change((regex,), rf"\g<left>{_escaped(added)}\g<right>", literal)


def _run(old: str, new: str) -> tuple[list[str], str, list[str], list[str]]:
    """The tokens replaced inside a string, what replaced them, and the tokens before and after."""
    was, now = (_INSIDE.findall(text[1:-1]) for text in (old, new))
    left = same(was, now)
    right = same(was[left:][::-1], now[left:][::-1])
    last = len(was) - right
    return was[left:last], "".join(now[left : len(now) - right]), [EDGE, *was[:left]], [*was[last:], EDGE]


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


def _escaped(text: str) -> str:
    """`text` in a template of `re.Match.expand`."""
    return text.replace("\\", r"\\")


def _is_telling(change: _Change, before: Sequence[str], after: Sequence[str], edits: int) -> bool:
    """Whether the pattern is specific enough: several tokens, with a word, on both sides of the insertion."""
    around = [token for token in (*before, *after) if token not in (_ANY_WORD, _ANY_STRING)]
    sought = (*around, *change.literal)
    enough = len(sought) >= _LEAST_TOKENS[edits] and any(token.startswith(r"\b") for token in sought)
    return enough and bool(change.removed or (before and after))


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


def _like(
    compared: Compared, site: Site, change: _Change, before: Sequence[str], after: Sequence[str]
) -> Iterator[NextEdit]:
    """The places of the sought tokens in the current text, with only white space between them; one edit for a line."""
    pattern = _pattern(before, change.removed, after)
    view, texts = compared.new.view, compared.texts
    why = f"again: {' '.join(site.removed)[:40] or 'nothing'} to {site.added.strip()[:40] or 'nothing'}"
    brought = list(_brought(compared.new, site))
    found: list[NextEdit] = []
    for match in islice(pattern.finditer(texts.new), _MOST_REPEATS):
        start, end = match.span("sought")
        leaf = start if end > start else max(start - 1, 0)
        is_done = site.place[0] <= start and end <= site.place[1]
        kind = kind_at(view, leaf)
        if end == start and kind in view.table.strings:  # behind a string is not inside it
            kind = kind_at(view, start)
        if is_done or texts.is_new(start, max(end, start + 1)) or kind != site.kind:
            continue
        if not all(compared.new.has_at(name, leaf) for name in brought) or _was_astray(compared, site, start):
            continue
        text = match.expand(change.added)
        if found and "\n" not in (between := texts.new[found[-1].end : start]):
            last = found.pop()
            found.append(NextEdit(last.start, end, last.text + between + text, why))
        else:
            found.append(NextEdit(start, end, text, why))
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

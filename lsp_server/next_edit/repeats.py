"""Finds what no longer fits after editing one of several similar lines.

Two edits with the same replacement show which surrounding tokens matter: those that both share. Where each has some
word, number or string, any will do. After a single edit, only nearly identical lines are similar.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from lsp_server.next_edit.names import Names, Role
from lsp_server.next_edit.recent import Comparison
from lsp_server.next_edit.renames import Compared, NextEdit
from lsp_server.syntax.lines import line_end, line_start
from lsp_server.syntax.view import View

_STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_TOKEN = re.compile(rf"{_STRING}|\w+|[^\w\s]")
_ANY_STRING, _ANY_WORD = f"(?:{_STRING})", r"\w+"
_EDGE = "\n"
"""A token for the start or the end of a line."""
_CONTEXT_TOKENS = 5
_REPLACED_CONTEXT = (2, 1)
"""The number of tokens before and after that matter once two edits have replaced something."""
_SINGLE_CONTEXT = ((3, 3), (2, 1), (2, 1), (1, 1), (0, 0))
"""The same after a single edit, by the number of tokens that it replaced: the more, the less matters around them."""
_LEAST_TOKENS = {1: 4, 2: 3}
_LEAST_WORDS = {1: 1, 2: 1}
"""The required size of a pattern, by the number of edits; shorter ones match unrelated lines."""
_Tokens = list[re.Match[str]]
_MOST_SITES = 12
_MOST_REPEATS = 40


@dataclass(frozen=True)
class _Site:
    """A line in which one run of tokens was replaced: the old and new tokens, and those around them.

    `kind` is the kind of the enclosing string or comment; empty for code. `defines`: a name is defined there. `place`:
    where `added` starts and ends.
    """

    removed: tuple[str, ...]
    added: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    kind: str
    defines: bool
    place: tuple[int, int]


def after_repeats(compared: Compared) -> Iterator[NextEdit]:
    """The places that look as two changed places did."""
    sites = list(_sites(compared))[:_MOST_SITES]
    for one, other in combinations(sites, 2):
        if (one.removed, one.added, one.kind) != (other.removed, other.added, other.kind):
            continue
        most = _REPLACED_CONTEXT if one.removed else (_CONTEXT_TOKENS, _CONTEXT_TOKENS)
        before = _alike(one.before[::-1], other.before[::-1])[: most[0]][::-1]
        after = _alike(one.after, other.after)[: most[1]]
        yield from _like(compared, one, before, after, edits=2)
    for site in (site for site in sites if not site.defines):
        left, right = _SINGLE_CONTEXT[min(len(site.removed), len(_SINGLE_CONTEXT) - 1)]
        near = site.before[len(site.before) - left :], site.after[:right]
        yield from _like(compared, site, [*map(_literal, near[0])], [*map(_literal, near[1])], edits=1)


def _sites(compared: Compared) -> Iterator[_Site]:
    texts, seen = compared.texts, set[int]()
    for hunk in compared.texts.hunks:
        start, old_start = line_start(texts.new, hunk.start), line_start(texts.old, hunk.old_start)
        end, old_end = line_end(texts.new, hunk.end), line_end(texts.old, hunk.old_end)
        is_new_line = texts.new[start:end].strip() == texts.new[hunk.start : hunk.end].strip()
        if hunk.old_start == hunk.old_end and is_new_line:
            continue
        if start not in seen and "\n" not in texts.new[start:end] + texts.old[old_start:old_end]:
            seen.add(start)
            site = _site(compared, (old_start, old_end), (start, end))
            if site is not None:
                yield site


def _site(compared: Compared, old: tuple[int, int], new: tuple[int, int]) -> _Site | None:
    """The one run of tokens in which two lines differ; None if they differ only in white space, or share no word."""
    texts = compared.texts
    olds, news = list(_TOKEN.finditer(texts.old, *old)), list(_TOKEN.finditer(texts.new, *new))
    was, now = [match[0] for match in olds], [match[0] for match in news]
    left = _same(was, now)
    right = _same(was[left:][::-1], now[left:][::-1])
    last, new_last = len(was) - right, len(now) - right
    if (last == left and new_last == left) or not any(map(str.isidentifier, was[:left] + was[last:])):
        return None
    if last == left:
        text = _inserted(texts, olds, news, left, new_last)
    else:
        text = texts.new[news[left].start() : news[new_last - 1].end()] if new_last > left else ""
    if text is None:
        return None
    before, after = [_EDGE, *was[:left]][-_CONTEXT_TOKENS:], [*was[last:], _EDGE][:_CONTEXT_TOKENS]
    at = olds[left].start() if left < len(olds) else olds[-1].start()
    return _Site(
        tuple(was[left:last]),
        text,
        tuple(before),
        tuple(after),
        _kind(compared.old.view, at),
        any(_defines(compared.old, offset) for offset in (at, *(match.start() for match in olds[left:last]))),
        (news[left].start(), news[new_last - 1].end()) if new_last > left else (0, 0),
    )


def _inserted(texts: Comparison, olds: _Tokens, news: _Tokens, left: int, last: int) -> str | None:
    """The text inserted between two tokens, with its white space; None if it replaced other white space."""
    if not left:
        return texts.new[news[0].start() : news[last].start()]
    gap = texts.old[olds[left - 1].end() : olds[left].start()] if left < len(olds) else ""
    before = texts.new[news[left - 1].end() : news[left].start()]
    end = news[last].start() if last < len(news) else news[-1].end()
    if not gap:
        return before + texts.new[news[left].start() : end]
    return texts.new[news[left].start() : end] if before == gap else None


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of tokens that two lines share at their start."""
    differ = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differ, min(len(one), len(other)))


def _defines(names: Names, offset: int) -> bool:
    """Whether a definition starts there: other definitions have names of their own."""
    name = names.at(offset)
    return name is not None and (name.binder is not None or name.role is Role.MEMBER)


def _kind(view: View, offset: int) -> str:
    kinds = view.table.strings | view.table.comments
    return next((node.type for node in view.ancestors(view.leaf_at(offset))[:3] if node.type in kinds), "")


def _alike(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Regexes for the tokens that two lines share from their start; any word where both have one."""
    found = []
    for left, right in zip(one, other, strict=False):
        if left == right:
            found.append(_literal(left))
        elif left[0] in "\"'" and right[0] in "\"'":
            found.append(_ANY_STRING)
        elif left.isalnum() and right.isalnum():
            found.append(_ANY_WORD)
        else:
            break
    return found


def _literal(token: str) -> str:
    return _EDGE if token == _EDGE else rf"\b{re.escape(token)}\b" if re.fullmatch(r"\w+", token) else re.escape(token)


def _is_telling(removed: Sequence[str], before: Sequence[str], after: Sequence[str], edits: int) -> bool:
    """Whether the pattern is specific enough: several tokens, with words, on both sides of the insertion."""
    sought = [token for token in (*before, *map(_literal, removed), *after) if token not in (_ANY_WORD, _ANY_STRING)]
    words = sum(token.startswith(r"\b") for token in sought)
    enough = len(sought) >= _LEAST_TOKENS[edits] and words >= _LEAST_WORDS[edits]
    return enough and bool(removed or (before and after))


def _pattern(before: Sequence[str], removed: Sequence[str], after: Sequence[str]) -> re.Pattern[str]:
    """Group 1 matches the text before, group 2 the text to replace."""
    left, middle, right = ([*before], [*map(_literal, removed)], [*after])
    ends = "$" if right[-1:] == [_EDGE] else ""
    starts = r"^[ \t]*" if left[:1] == [_EDGE] else ""
    left, right = left[bool(starts) :], right[: len(right) - bool(ends)]
    joined = [r"[ \t]*".join(part) for part in (left, middle, right)]
    return re.compile(rf"({starts}{joined[0]}[ \t]*)({joined[1]})(?=[ \t]*{joined[2]}[ \t]*{ends})", re.MULTILINE)


def _like(
    compared: Compared, site: _Site, before: Sequence[str], after: Sequence[str], *, edits: int
) -> Iterator[NextEdit]:
    """The places of the sought tokens in the current text, with only white space between them; one edit for a line."""
    if not _is_telling(site.removed, before, after, edits):
        return
    pattern = _pattern(before, site.removed, after)
    view, texts = compared.new.view, compared.texts
    why = f"again: {' '.join(site.removed)[:40] or 'nothing'} to {site.added.strip()[:40] or 'nothing'}"
    found: list[NextEdit] = []
    for match in islice(pattern.finditer(texts.new), _MOST_REPEATS):
        start, end = match.span(2)
        leaf, is_done = start if end > start else max(start - 1, 0), site.place[0] <= start and end <= site.place[1]
        if is_done or texts.is_new(start, max(end, start + 1)) or _kind(view, leaf) != site.kind:
            continue
        if found and "\n" not in (between := texts.new[found[-1].end : start]):
            last = found.pop()
            found.append(NextEdit(last.start, end, last.text + between + site.added, why))
        else:
            found.append(NextEdit(start, end, site.added, why))
    yield from found

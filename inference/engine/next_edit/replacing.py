"""Repeats the replacements of a change in similar lines: the same tokens between the same neighbours."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from inference.engine.next_edit.tokens import (
    Opcode,
    Proposal,
    Replacement,
    Splice,
    Token,
    is_word,
    lines_of,
    opcodes,
    shifted,
    spliced,
    texts,
    tokens,
)
from inference.messages import Hunk
from inference.models.family import common_start

_CONTEXT = 4
"""How many tokens on each side of a replacement to compare."""
_MOST_TOKENS = 300
"""For a change that is carried over as a whole."""
_ALIKE = 0.5
"""The share of tokens that similar lines have in common."""
_NEAR = 8
"""Replacements with no more tokens between them are applied together."""
_TEMPLATE_LIKENESS = 0.4


@dataclass(frozen=True)
class _Surrounded:
    """A replacement and the tokens to its left and right."""

    replacement: Replacement
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()


def replaced(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """Possible replacements in `lines`, following a change."""
    if not hunk.old.strip():
        return
    old, new = lines_of(hunk.old), lines_of(hunk.new)
    yield from _carried_over(lines, hunk.old, hunk.new)
    if len(old) == len(new) > 1:
        for before, after in zip(old, new, strict=True):
            if before != after and before.strip():
                yield from _carried_over(lines, before, after)
    yield from _repeated(lines, list(_replacements(hunk)))
    yield from _templates(lines, hunk)
    for rename in _renames(hunk):
        yield from _repeated(lines, [rename])


def _replacements(hunk: Hunk) -> Iterator[_Surrounded]:
    before, after = tokens(hunk.old), tokens(hunk.new)
    for code in opcodes(before, after):
        if code[0] != "equal":
            left = texts(before[max(0, code[1] - _CONTEXT) : code[1]])
            right = texts(before[code[2] :][:_CONTEXT])
            yield _Surrounded(Replacement.of(hunk.old, before, hunk.new, after, code), left, right)


def _renames(hunk: Hunk) -> Iterator[_Surrounded]:
    """Each removed name becomes each new one, if there are few."""
    old, new = (dict.fromkeys(token.text for token in tokens(side) if token.is_word) for side in (hunk.old, hunk.new))
    gone = [word for word in old if word not in new]
    fresh = [word for word in new if word not in old]
    if len(gone) <= 2 and len(fresh) <= 2:
        yield from (_Surrounded(Replacement((word,), other)) for word in gone for other in fresh)


def _repeated(lines: Sequence[str], wanted: Sequence[_Surrounded]) -> Iterator[Proposal]:
    """Lines that allow one or several of the replacements."""
    for number, line in enumerate(lines):
        found = tokens(line)
        splices: list[Splice] = []
        likeness = 0.0
        for one in wanted:
            for at in range(len(found) - len(one.replacement.old) + 1):
                if known := _likeness(one, found, at):
                    likeness = max(likeness, known)
                    splices.append(one.replacement.at(line, found, at))
        if splices:
            yield Proposal(number, number + 1, line, spliced(line, splices), likeness)


def _likeness(one: _Surrounded, found: Sequence[Token], at: int) -> float:
    """How similar the surroundings of token `at` are to a replacement's, 0 to 1; 0: it does not apply there."""
    old = one.replacement.old
    end = at + len(old)
    if texts(found[at:end]) != old:
        return 0.0
    left = common_start(one.left[::-1], texts(found[max(0, at - _CONTEXT) : at])[::-1])
    right = common_start(one.right, texts(found[end : end + _CONTEXT]))
    if any(is_word(token) and len(token) > 1 for token in old):
        return (1 + left + right) / (1 + 2 * _CONTEXT)
    return (left + right) / (1 + 2 * _CONTEXT) if left and right and left + right > 2 else 0.0


def _carried_over(lines: Sequence[str], old: str, new: str) -> Iterator[Proposal]:
    """A whole change applied to as many similar lines, with their indentation."""
    old, new = shifted(old, old, ""), shifted(new, old, "")
    before = tokens(old)
    after = tokens(new)
    height = old.count("\n")
    changes = [code for code in opcodes(before, after) if code[0] != "equal"]
    wanted = [(code[1], Replacement.of(old, before, new, after, code)) for code in changes]
    words = {token.text for token in before if token.is_word}
    if not 0 < len(before) <= _MOST_TOKENS or not height:
        return
    matcher = SequenceMatcher(None, (), texts(before), autojunk=False)
    for number in range(len(lines) - height + 1):
        now = "".join(lines[number : number + height])
        here = shifted(now, now, "")
        found = tokens(here)
        matcher.set_seq1(texts(found))
        if words.isdisjoint(texts(found)) or not _looks_alike(matcher):
            continue
        places = {theirs + n: ours + n for ours, theirs, size in matcher.get_matching_blocks() for n in range(size)}
        if splices := _placed(wanted, places, here, found):
            text = shifted(spliced(here, splices), "", now)
            yield Proposal(number, number + height, now, text, matcher.ratio())


def _looks_alike(matcher: "SequenceMatcher[str]") -> bool:
    return all(ratio() >= _ALIKE for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio))


def _placed(
    wanted: Sequence[tuple[int, Replacement]], places: Mapping[int, int], text: str, found: Sequence[Token]
) -> list[Splice]:
    """Replacements, each starting at a token, mapped to these tokens of another text; empty if one has no place."""
    splices = []
    for first, one in wanted:
        if one.old:
            at = places.get(first)
            if at is None or any(places.get(first + n) != at + n for n in range(len(one.old))):
                return []
        else:
            left, at = places.get(first - 1), places.get(first)
            if at is None and left is not None:
                at = left + 1
            if at is None or left not in (None, at - 1):
                return []
        splices.append(one.at(text, found, at))
    return splices


def _templates(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """Nearby replacements, applied together around other words than the original ones."""
    before, after = tokens(hunk.old), tokens(hunk.new)
    for codes in _clusters(opcodes(before, after)):
        found = _template(hunk, before, after, codes)
        if found is None:
            continue
        pattern, parts = found
        for number, line in enumerate(lines):
            text = pattern.sub(lambda match, parts=parts: _instance(match, parts), line)  # type: ignore[misc]
            if text != line:
                yield Proposal(number, number + 1, line, text, _TEMPLATE_LIKENESS)


def _clusters(codes: Sequence[Opcode]) -> Iterator[Sequence[Opcode]]:
    """Runs of two or more opcodes, each near the one before it."""
    changed = [n for n, code in enumerate(codes) if code[0] != "equal"]
    first = changed[0] if changed else 0
    for n, following in pairwise([*changed, None]):
        if n is not None and (following is None or codes[n + 1][2] - codes[n + 1][1] > _NEAR):
            if n > first:
                yield codes[first : n + 1]
            first = following or 0


def _template(
    hunk: Hunk, before: Sequence[Token], after: Sequence[Token], codes: Sequence[Opcode]
) -> tuple[re.Pattern[str], list[str | int]] | None:
    """A pattern with a group for each run of unchanged tokens, and its replacement with their numbers.

    None if it is too short.
    """
    pattern = ""
    parts = list[str | int]()
    groups = 0
    words = 0
    for tag, i, j, k, m in codes:
        if tag == "equal":
            groups += 1
            pattern += r"\s*(\S|\S[^\n]{0,80}?\S)\s*"
            parts.append(groups)
        else:
            words += sum(token.is_word for token in before[i:j])
            pattern += r"\s*".join(re.escape(token.text) for token in before[i:j])
            start = after[k - 1].end if groups and k > 0 else after[k].start if k < m else 0
            end = after[m].start if k < m < len(after) else after[m - 1].end if m else 0
            parts.append(hunk.new[start:end] if k < m else "")
    if not words or groups > 3 or any("\n" in part for part in parts if isinstance(part, str)):
        return None
    return re.compile((r"(?<!\w)" if codes[0][2] > codes[0][1] else r"(?<=\W)") + pattern), parts


def _instance(match: re.Match[str], parts: Sequence[str | int]) -> str:
    """The replacement of a match; the match itself if the unchanged part has unbalanced brackets."""
    if not all(map(_is_balanced, match.groups())):
        return match[0]
    return "".join(part if isinstance(part, str) else match[part] for part in parts)


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return False
    return depth == 0 and text.count('"') % 2 == 0 and text.count("'") % 2 == 0

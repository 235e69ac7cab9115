"""Repeats a change in similar code, with a score: 1 is offered without a model, below that a model decides.

- `repeated_edits`: the tokens that the user replaced in a line also occur elsewhere between the same tokens. After two
  equal edits, the tokens that both share must match; after a single one, all tokens near it.
- `repeated_insertions`: the user added the same lines above several similar lines, here or in other files.
- `missing_line_edits`: the user added lines next to a name; elsewhere they are missing next to that name.
- `alike_line_edits`: other lines are similar to changed ones. A three-way merge by tokens changes them in the same way:
  the replaced tokens must be there, the others may differ. The score is the similarity.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, combinations, islice

from inference.messages import MAX_PROPOSED_CHARACTERS, Hunk
from inference.models.edit_prompts import LINE
from inference.models.family import common_prefix_and_suffix_lengths
from lsp_server.next_edit.edits import NextEdit
from lsp_server.next_edit.name_diff import NameDiff
from lsp_server.next_edit.names import NameIndex, Occurrence, Role
from lsp_server.next_edit.text_diff import DiffRange, TextDiff
from lsp_server.syntax.lines import eol_at, indentation, is_word_char, line_end, line_start
from lsp_server.syntax.view import SyntaxView

_STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_TOKEN = re.compile(rf"{_STRING}|\w+|[^\w\s]")
_EDGE = "\n"
"""A token for the start or the end of a line."""
_ANY_STRING = f"(?:{_STRING})"
_ANY_WORD = r"\w+"
_CONTEXT_TOKENS = 5
_SINGLE_CONTEXT = ((3, 3), (2, 1), (2, 1), (1, 1), (0, 0))
"""How many tokens before and after a single edit must match, by how many it replaced: the more, the fewer."""
_MIN_PATTERN_TOKENS = {1: 4, 2: 3}
"""The required size of a pattern, by the number of edits; shorter ones match unrelated lines."""
_MIN_INSERTIONS = 3
"""The same insertion must be above at least this many lines to be repeated above others."""
_MAX_SITES = 12
_MAX_REPEATS = 40

_VALUE = rf"{_STRING}|\d\w*|None|nil|null|undefined|[Tt]rue|[Ff]alse|-|\."
_CALCULATION = rf"{_STRING}|\d\w*|[-+*/%<>]"
"""A changed value, or a changed calculation with values, rarely concerns other lines."""
_NOTHING = frozenset({"None", "nil", "null", "undefined", "True", "False", "true", "false"})

_WORD = re.compile(r"[^\W\d]\w*")
_MAX_FIELD_LINE_CHARS = 500
"""A longer line does not declare a field."""
_ITEM = re.compile(
    r"(?P<shape>[ \t]*(?:(?:public|private|protected|readonly|static|pub|let|const|var) +|self\.|this\.)*)"
    r"(?P<name>[A-Za-z_]\w*) *(?P<mark>[:=,?])"
)
_PLAIN = re.compile(r"[\w.]+|\"\w+\"|'\w+'")
_SELF = frozenset({"self", "this"})
_MAX_ADDED_LINES = 8
_MAX_NEIGHBOUR_LINES = 30
"""How far above an added line its neighbour may be, beyond comments and strings."""

_MAX_MERGED_HUNKS, _MAX_RANGES, _MAX_TEXTS = 3, 6, 4
"""How many of the latest changes to merge, ranges of lines to propose (most alike first), and texts for each."""
_MAX_MERGED_TOKENS = 300
"""The most tokens in a change and in the lines compared with it: the time grows with up to their cube."""
_MAX_MERGE_S = 0.5
"""Processor time for all comparisons, the latest change first."""
_MIN_LIKENESS, _MAX_LIKENESS = 0.5, 0.99
"""The share of tokens that similar lines have in common. A score never reaches 1 by likeness alone."""
_REACH_LINES = 300
"""How far from a change to search, which takes time."""
_TOKEN_OR_SPACE = re.compile(r"\w+|[^\w\s]|\s+")
"""A merge looks inside strings, and keeps white space."""


@dataclass(frozen=True)
class TokenReplacement:
    """A line in which one run of tokens was replaced: the old and new tokens, and those around them.

    `literal` is the kind of the string or comment around it, [start, end) where `added` is now. `is_local`:
    the edit says nothing about other lines unless it is repeated.
    """

    removed: tuple[str, ...]
    added: str
    prefix: tuple[str, ...]
    suffix: tuple[str, ...]
    literal: str
    start: int
    end: int
    is_local: bool

    @property
    def match_key(self) -> tuple[str, tuple[str, ...], str]:
        """What two equal edits have in common."""
        return self.literal, self.removed, self.added


def repeated_edits(diff: NameDiff) -> Iterator[NextEdit]:
    """Finds lines that match the context of two equal edits, or the stricter context of a single edit."""
    sites = list(islice(_edit_sites(diff), _MAX_SITES))
    for site, other_site in combinations(sites, 2):
        if site.match_key != other_site.match_key:
            continue
        prefix = _common_pattern(site.prefix[::-1], other_site.prefix[::-1])[::-1]
        suffix = _common_pattern(site.suffix, other_site.suffix)
        if _is_specific(site, prefix, suffix, edits=2):
            yield from _match_edits(diff, site, prefix, suffix)
    for site in sites:
        num_before, num_after = _SINGLE_CONTEXT[min(len(site.removed), len(_SINGLE_CONTEXT) - 1)]
        prefix = [*map(_literal, site.prefix[max(len(site.prefix) - num_before, 0) :])]
        suffix = [*map(_literal, site.suffix[:num_after])]
        if not site.is_local and _is_specific(site, prefix, suffix, edits=1):
            yield from _match_edits(diff, site, prefix, suffix)


def _edit_sites(diff: NameDiff) -> Iterator[TokenReplacement]:
    """Each line that changed alone, in order: one old line became one new line."""
    text_diff, visited = diff.text_diff, set[int]()
    for hunk in text_diff.changed_words:
        start, end = line_start(text_diff.new, hunk.start), line_end(text_diff.new, hunk.end)
        old_start, old_end = line_start(text_diff.old, hunk.old_start), line_end(text_diff.old, hunk.old_end)
        is_line = "\n" not in text_diff.new[start:end] + text_diff.old[old_start:old_end]
        if start in visited or text_diff.added_lines(hunk) or not is_line:
            continue
        visited.add(start)
        site = _edit_site(diff, DiffRange(old_start, old_end, start, end))
        if site is not None:
            yield site


def _edit_site(diff: NameDiff, line: DiffRange) -> TokenReplacement | None:
    """The one run of tokens in which two lines differ; None if they differ only in white space."""
    text_diff = diff.text_diff
    old_matches = list(_TOKEN.finditer(text_diff.old, line.old_start, line.old_end))
    new_matches = list(_TOKEN.finditer(text_diff.new, line.start, line.end))
    old, new = [match[0] for match in old_matches], [match[0] for match in new_matches]
    first, num_same = common_prefix_and_suffix_lengths(old, new)
    old_stop, stop = len(old) - num_same, len(new) - num_same
    removed = old[first:old_stop]
    if not old or (not removed and stop == first):
        return None
    start, end = (new_matches[first].start(), new_matches[stop - 1].end()) if stop > first else (0, 0)
    added = text_diff.new[start:end] if removed else _inserted(text_diff, old_matches, new_matches, first, stop)
    if added is None:
        return None
    old_start = old_matches[first].start() if first < len(old) else old_matches[-1].start()
    literal = diff.old_names.view.literal_kind_at(old_start)
    shares_word = any(map(str.isidentifier, old[:first] + old[old_stop:]))
    defines = only_field_on_line(diff.new_names, line.start) is not None or any(
        _defines(diff.old_names, offset)
        for offset in (old_start, *(match.start() for match in old_matches[first:old_stop]))
    )
    is_local = (
        defines or not shares_word or _is_local(diff.new_names, old[:first], removed, start, end, literal=literal)
    )
    return TokenReplacement(
        tuple(removed),
        added,
        tuple([_EDGE, *old[:first]][-_CONTEXT_TOKENS:]),
        tuple([*old[old_stop:], _EDGE][:_CONTEXT_TOKENS]),
        literal,
        start,
        end,
        is_local,
    )


def _inserted(
    text_diff: TextDiff, old: Sequence[re.Match[str]], new: Sequence[re.Match[str]], first: int, stop: int
) -> str | None:
    """The text inserted between two tokens, with its white space; None if it replaced other white space."""
    end = new[stop].start() if stop < len(new) else new[-1].end()
    if not first:
        return text_diff.new[new[0].start() : end]
    old_gap = text_diff.old[old[first - 1].end() : old[first].start()] if first < len(old) else ""
    gap = text_diff.new[new[first - 1].end() : new[first].start()]
    if old_gap and gap != old_gap:
        return None
    return ("" if old_gap else gap) + text_diff.new[new[first].start() : end]


def _defines(names: NameIndex, offset: int) -> bool:
    """Whether a definition starts at `offset`: other definitions have different names."""
    name = names.at_offset(offset)
    if name is not None and (name.binder is not None or name.role is Role.MEMBER):
        return True
    view = names.view
    nodes = view.ancestors(view.leaf_at(offset))[:3]
    kinds = [node.type for node in nodes]
    is_private = kinds[:1] == ["private_property_identifier"]
    is_method = kinds[1:] == ["qualified_identifier", "function_declarator"]
    return (
        is_private
        or is_method
        or any(node.type in view.table.functions and view.start(node) == offset for node in nodes)
    )


def _is_local(
    names: NameIndex, prefix: Sequence[str], removed: Sequence[str], start: int, end: int, *, literal: str
) -> bool:
    """Whether an edit concerns its own line only: another value or known name, a parameter, or an attribute."""
    text = names.view.text[start:end]
    added = _TOKEN.findall(text)
    tokens = [*removed, *added]
    is_operand = bool(removed and added) or any(token[0].isdigit() or token[0] in "\"'" for token in tokens)
    if not literal and is_operand and all(re.fullmatch(_CALCULATION, token) for token in tokens):
        return True
    if "=" in (text, *removed) and prefix[-1:] in (["<"], [">"]):  # `<` or `<=`
        return True
    if not literal and any(token[0] in "\"'" and " " in token.strip() for token in added):  # a message
        return True
    if removed:
        is_value = all(re.fullmatch(_STRING if literal else _VALUE, token) for token in tokens)
        is_choice = len(removed) == 1 and all(_is_defined(names, word) for word in (*removed, text))
        return is_value or (not literal and (is_choice or _NOTHING.issuperset(removed)))
    if text.startswith("->") and added[-1] != "None":  # the type of a result
        return True
    inserted = (names.at_offset(start + match.start()) for match in _TOKEN.finditer(text))
    is_parameter = any(name is not None and name.role is Role.PARAMETER for name in inserted)
    return (is_parameter and prefix[-1:] != ["("]) or (not literal and prefix[:1] in (["@"], ["#"]))


def _is_defined(names: NameIndex, word: str) -> bool:
    return word.isidentifier() and any(name.binder or name.role is Role.MEMBER for name in names.occurrences(word))


def _common_pattern(a_tokens: Sequence[str], b_tokens: Sequence[str]) -> list[str]:
    """Regexes for the tokens that two lines share from their start; where words or strings differ, for any of these."""
    pattern = list[str]()
    for a, b in zip(a_tokens, b_tokens, strict=False):
        if a == b:
            pattern.append(_literal(a))
        elif a[0] in "\"'" and b[0] in "\"'":
            pattern.append(_ANY_STRING)
        elif a.isalnum() and b.isalnum():
            pattern.append(_ANY_WORD)
        else:
            break
    return pattern


def _literal(token: str) -> str:
    return _EDGE if token == _EDGE else rf"\b{re.escape(token)}\b" if re.fullmatch(r"\w+", token) else re.escape(token)


def _is_specific(site: TokenReplacement, prefix: Sequence[str], suffix: Sequence[str], *, edits: int) -> bool:
    """Whether the pattern has several tokens, with a word, and those around an insertion on both sides."""
    context = [token for token in (*prefix, *suffix) if token not in (_ANY_WORD, _ANY_STRING)]
    pattern = [*context, *map(_literal, site.removed)]
    has_word = any(token.startswith(r"\b") for token in pattern)
    return len(pattern) >= _MIN_PATTERN_TOKENS[edits] and has_word and bool(site.removed or (prefix and suffix))


def _pattern(prefix: Sequence[str], removed: Sequence[str], suffix: Sequence[str]) -> re.Pattern[str]:
    """A regex whose first group is the text to replace."""
    starts = prefix[:1] == [_EDGE]
    ends = suffix[-1:] == [_EDGE]
    parts = prefix[starts:], [*map(_literal, removed)], suffix[: len(suffix) - ends]
    prefix_pattern, removed_pattern, suffix_pattern = (r"[ \t]*".join(part) for part in parts)
    prefix_pattern = rf"^[ \t]*{prefix_pattern}" if starts else prefix_pattern
    suffix_pattern = rf"{suffix_pattern}[ \t]*$" if ends else suffix_pattern
    return re.compile(rf"{prefix_pattern}[ \t]*({removed_pattern})(?=[ \t]*{suffix_pattern})", re.MULTILINE)


def _match_edits(
    diff: NameDiff, site: TokenReplacement, prefix: Sequence[str], suffix: Sequence[str]
) -> Iterator[NextEdit]:
    """Repeats an edit wherever the pattern matches the current text; one edit for a line."""
    view, text_diff = diff.new_names.view, diff.text_diff
    why = f"again: {' '.join(site.removed)[:40] or 'nothing'} to {site.added.strip()[:40] or 'nothing'}"
    introduced = list(_introduced_names(diff.new_names, site))
    last: NextEdit | None = None
    for match in islice(_pattern(prefix, site.removed, suffix).finditer(text_diff.new), _MAX_REPEATS):
        start, end = match.span(1)
        leaf = start if end > start else max(start - 1, 0)
        literal = view.literal_kind_at(leaf)
        if end == start and literal in view.table.strings:  # after a string is not inside it
            literal = view.literal_kind_at(start)
        is_done = site.start <= start and end <= site.end
        if is_done or text_diff.has_new_text(start, max(end, start + 1)) or literal != site.literal:
            continue
        if not all(diff.new_names.resolves_at(name, leaf) for name in introduced):
            continue
        if last is not None and "\n" not in (between := text_diff.new[last.end : start]):
            last = NextEdit(last.start, end, last.text + between + site.added, why)
            continue
        if last is not None:
            yield last
        last = NextEdit(start, end, site.added, why)
    if last is not None:
        yield last


def repeated_insertions(view: SyntaxView, diffs: Sequence[TextDiff]) -> Iterator[NextEdit]:
    """Repeats a line that was inserted directly above several others, above all lines that differ only in names."""
    insertions = defaultdict[str, list[list[str]]](list)
    for diff in diffs:
        for hunk in diff.changed_lines:
            last = line_start(diff.new, hunk.end - 1)
            is_beside = indentation(diff.new, last) == indentation(diff.new, hunk.end)
            if hunk.old_start == hunk.old_end and hunk.start <= last and is_beside:
                tokens = _TOKEN.findall(diff.new, hunk.end, line_end(diff.new, hunk.end))
                insertions[diff.new[last : hunk.end].strip()].append(tokens)
    for line, sites in insertions.items():
        if not _WORD.search(line) or len(sites) < _MIN_INSERTIONS:
            continue
        prefix = min((_common_pattern(sites[0], site) for site in sites[1:]), key=len)
        has_word = any(token.startswith(r"\b") for token in prefix)
        pattern = _pattern([_EDGE, *prefix], (), ()) if has_word and len(prefix) >= _MIN_PATTERN_TOKENS[2] else None
        for match in islice(pattern.finditer(view.text), _MAX_REPEATS) if pattern else ():
            start = line_start(view.text, match.end())
            indent = indentation(view.text, start)
            is_done = view.text[:start].rstrip().endswith(line)
            if not is_done and not view.literal_kind_at(start + len(indent)):
                yield NextEdit(start, start, indent + line + eol_at(view.text, start), f"again: {line[:40]}")


def _introduced_names(names: NameIndex, site: TokenReplacement) -> Iterator[Occurrence]:
    """The names that an edit used and that the file defines."""
    for match in _TOKEN.finditer(names.view.text, site.start, site.end):
        name = names.at_offset(match.start())
        if name is not None and name.role in (Role.USE, Role.FIELD, Role.MEMBER):
            yield name


def only_field_on_line(names: NameIndex, start: int) -> Occurrence | None:
    """Returns the only field that the line at `start` defines, unless it is the entry of an object."""
    text = names.view.text
    line = text[start : line_end(text, start)]
    if len(line) > _MAX_FIELD_LINE_CHARS or "(" in line:
        return None
    words = [names.at_offset(start + match.start()) for match in _WORD.finditer(line)]
    members = [name for name in words if name is not None and name.role is Role.MEMBER and not name.receiver]
    if len(members) != 1 or any(node.type in names.view.table.functions for node in members[0].ancestors):
        return None
    is_entry = names.field_path(members[0].node, members[0].ancestors[0]) in names.rules.keys
    return None if is_entry else members[0]


@dataclass(frozen=True)
class _Item:
    """A line that is about one name. `start` and `end` are its bounds without the line break."""

    start: int
    end: int
    line: str
    name: str
    shape: tuple[str, str]

    @property
    def code(self) -> str:
        return self.line.strip().rstrip(",;")


def missing_line_edits(diff: NameDiff) -> Iterator[NextEdit]:
    """Adds items that the user added next to a name elsewhere, next to the other lines about that name."""
    text_diff = diff.text_diff
    for hunk in text_diff.changed_words:
        added = _added_items(diff.new_names, text_diff, hunk)
        neighbour = _item_above(diff.new_names, added[0]) if added else None
        if neighbour is None or ("=" not in neighbour.line and any("=" in item.line for item in added)):
            continue
        if neighbour.name not in {item.name for item in added}:
            yield from _neighbour_edits(text_diff, added, neighbour)


def _added_items(names: NameIndex, text_diff: TextDiff, hunk: DiffRange) -> list[_Item]:
    """The items of one shape in a hunk that only added whole lines, and few of them; else none."""
    lines = text_diff.added_lines(hunk)
    if lines is None or text_diff.new.count("\n", *lines) >= _MAX_ADDED_LINES:
        return []
    starts = accumulate(map(len, LINE.findall(text_diff.new, *lines)), initial=lines[0])
    items = [item for start in starts if start < lines[1] and (item := _item(names, start))]
    return [item for item in items if item.shape == items[0].shape]


def _item(names: NameIndex, start: int) -> _Item | None:
    """The item of the line at `start`; None if it has no name, or several."""
    text = names.view.text
    end = line_end(text, start)
    line = text[start:end]
    if match := _ITEM.match(line):
        return _Item(start, end, line, match["name"], (match["shape"], match["mark"]))
    field = only_field_on_line(names, start)
    return _Item(start, end, line, field.text, (indentation(line, 0), "")) if field else None


def _item_above(names: NameIndex, added: _Item) -> _Item | None:
    """The nearest item of the same shape above, with only comments, strings and blank lines in between."""
    text = names.view.text
    start = added.start
    for _ in range(_MAX_NEIGHBOUR_LINES):
        if start == 0:
            return None
        start = line_start(text, start - 1)
        item = _item(names, start)
        if item is not None and item.shape == added.shape:
            return item
        line = text[start : line_end(text, start)]
        if line.strip() and not names.view.literal_kind_at(start + len(line) - len(line.lstrip())):
            return None
    return None


def _neighbour_edits(text_diff: TextDiff, added: Sequence[_Item], neighbour: _Item) -> Iterator[NextEdit]:
    """Adds the items below the other lines about their neighbour, if these certainly look alike."""
    text = text_diff.new
    why = f"beside {neighbour.name}: {', '.join(item.name for item in added)}"
    starts = (line_start(text, match.start()) for match in re.finditer(rf"\b{neighbour.name}\b", text))
    for start in dict.fromkeys(starts):
        end = line_end(text, start)
        if start == neighbour.start or text_diff.has_new_text(start, end):
            continue
        lines = [_line_about(item, text[start:end], neighbour) for item in added]
        block = _indented_block(text, start, end)
        if all(lines) and not any(re.search(rf"\b{item.name}\b", block) for item in added):
            yield NextEdit(end, end, "".join(eol_at(text, start) + line for line in lines), why)


def _line_about(item: _Item, line: str, neighbour: _Item) -> str:
    """The line about an item that goes beside a line about its neighbour; empty if that is not certain."""
    code = line.strip().rstrip(",;")
    separator = line.rstrip()[len(line.rstrip().rstrip(",;")) :]
    if code == neighbour.code and separator:
        return indentation(line, 0) + item.code + separator
    words = _WORD.findall(code)
    is_assigned = " = " in code or ("=" in code and bool(separator))
    is_certain = words.count(neighbour.name) > 1 if is_assigned else bool(separator and _PLAIN.fullmatch(code))
    if set(words) - _SELF != {neighbour.name} or not is_certain:
        return ""
    return re.sub(rf"\b{neighbour.name}\b", item.name, line.rstrip())


def _indented_block(text: str, start: int, end: int) -> str:
    """The lines around one that are indented at least as much, and blank ones."""
    depth = len(indentation(text, start))
    while start > 0 and _is_in_block(text, line_start(text, start - 1), depth):
        start = line_start(text, start - 1)
    while end < len(text) and _is_in_block(text, end + 1, depth):
        end = line_end(text, end + 1)
    return text[start:end]


def _is_in_block(text: str, start: int, depth: int) -> bool:
    return not text[start : line_end(text, start)].strip() or len(indentation(text, start)) >= depth


def alike_line_edits(text: str, hunks: Sequence[Hunk]) -> list[NextEdit]:
    """Proposes edits of whole lines that have not changed, grouped by range, most alike first."""
    lines = LINE.findall(text)
    starts = [*accumulate(map(len, lines), initial=0)]
    proposals = list[NextEdit]()
    until_s = time.thread_time() + _MAX_MERGE_S
    for change, first, stop in _comparisons(lines, hunks):
        if merged := change.apply_to("".join(lines[first:stop])):
            proposals.append(NextEdit(starts[first], starts[stop], merged[0], score=merged[1]))
        if time.thread_time() > until_s:
            break
    by_range = dict[tuple[int, int], dict[str, NextEdit]]()
    for edit in sorted(proposals, key=lambda edit: -edit.score):
        by_range.setdefault((edit.start, edit.end), {}).setdefault(edit.text, edit)
    return [edit for texts in [*by_range.values()][:_MAX_RANGES] for edit in [*texts.values()][:_MAX_TEXTS]]


class LinesChange:
    """A change of whole lines, by tokens and without their indentation."""

    def __init__(self, old: str, new: str) -> None:
        self.height = old.count("\n")
        tokens, new_tokens = (_TOKEN_OR_SPACE.findall(_reindent(text, indentation(old, 0), "")) for text in (old, new))
        codes = SequenceMatcher(str.isspace, tokens, new_tokens, autojunk=False).get_opcodes()
        self._replaced = [(i, j, "".join(new_tokens[k:m])) for tag, i, j, k, m in codes if tag != "equal"]
        self._words = {token for token in tokens if is_word_char(token[0])}
        self._matcher = SequenceMatcher(str.isspace, (), tokens, autojunk=False)

    def apply_to(self, lines: str) -> tuple[str, float] | None:
        """Makes the same change to other lines. Returns them with their likeness (0 to 1); None if it does not fit."""
        indent = indentation(lines, 0)
        tokens = _TOKEN_OR_SPACE.findall(_reindent(lines, indent, ""))
        if not _is_short(lines) or self._words.isdisjoint(tokens):
            return None
        matcher = self._matcher
        matcher.set_seq1(tokens)
        if not all(
            ratio() >= _MIN_LIKENESS for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
        ):
            return None
        shifts = {old + n: index - old for index, old, size in matcher.get_matching_blocks() for n in range(size)}
        parts = list[str]()
        done = 0
        for i, j, new in self._replaced:
            possible = {shifts.get(n) for n in range(i, j)} or {shifts[n] for n in (i - 1, i) if n in shifts}
            shift = possible.pop() if len(possible) == 1 else None
            if shift is None:
                return None
            parts += [*tokens[done : i + shift], new]
            done = j + shift
        merged = _reindent("".join([*parts, *tokens[done:]]), "", indent)
        if merged == lines or len(merged) > MAX_PROPOSED_CHARACTERS:
            return None
        return merged, min(matcher.ratio(), _MAX_LIKENESS)


def _comparisons(lines: Sequence[str], hunks: Sequence[Hunk]) -> Iterator[tuple[LinesChange, int, int]]:
    """The latest changes, each with the ranges of lines around it that may be like it."""
    changed = {line for hunk in hunks for line in range(hunk.line, hunk.line + hunk.new.count("\n"))}
    for hunk in reversed(hunks[-_MAX_MERGED_HUNKS:]):
        for change in _lines_changes(hunk):
            last = min(hunk.line + _REACH_LINES, len(lines) - change.height)
            for line in range(max(0, hunk.line - _REACH_LINES), last + 1):
                if changed.isdisjoint(range(line, line + change.height)):
                    yield change, line, line + change.height


def _lines_changes(hunk: Hunk) -> Iterator[LinesChange]:
    """The whole change, and each line of it if it has as many lines as before."""
    old_lines, new_lines = LINE.findall(hunk.old), LINE.findall(hunk.new)
    pairs = zip(old_lines, new_lines, strict=True) if len(old_lines) == len(new_lines) > 1 else ()
    for old, new in ((hunk.old, hunk.new), *pairs):
        if old.strip() and old != new and _is_short(old) and _is_short(new):
            yield LinesChange(old, new)


def _is_short(lines: str) -> bool:
    return len(lines) <= MAX_PROPOSED_CHARACTERS and len(_TOKEN_OR_SPACE.findall(lines)) <= _MAX_MERGED_TOKENS


def _reindent(lines: str, old: str, new: str) -> str:
    return re.sub(rf"(?m)^{old}(?=[ \t]*\S)", new, lines)

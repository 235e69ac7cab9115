"""Where a fill ends, by the text around its hole: the decoder stops there, and every answer is cut there.

A fill ends before it closes a bracket that it did not open, leaves its block, or goes on with the text that follows.
Knows no language: strings and comments are told by their look, unless the caller knows better.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile

CLOSERS = {"(": ")", "[": "]", "{": "}"}
"""The brackets that count, opening to closing."""
_OPENERS = {closer: opener for opener, closer in CLOSERS.items()}
_WINDOW_CHARACTERS = 4_000
"""How much text on each side of the hole counts: a file may be a single line."""
_LONGEST_REPEAT, _MOST_CUTS = 400, 16
_REPEATED_LINES = 2
"""A fill that goes on with this many of the lines below has ended before them, even if more lines follow."""
_QUOTED_OR_BRACKET = re.compile(
    r"\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|\"(?:\\.|[^\"\\\n])*\"?|`(?:[^`$\n]|\$(?!\{))*`?"
    r"|(?<=[&<])'\w+(?!['\w])|'\w+(?=>)|(?:(?<!\w)|(?<=\b[bfru]))'(?:\\.|[^'\\\n])*'?|[()\[\]{}]"
)
"""A string may be unfinished; what it holds closes nothing. The name of a lifetime is none, nor code in a template."""
_MULTILINE_QUOTES = ('"""', "'''", "`")
_COMMENT = re.compile(r"#(?![\w!])")
"""A line that begins so belongs to what follows; C's directives stand outside of any block."""
_COMMENT_LINE = re.compile(r"^\s*(?:#(?![\w!\[])|//|/\*|\*\s|--\s|;;|%\s|<!--)|(?:\s#|[;{}),]\s*//|\s/\*)\s")

Brackets = Callable[[str], Iterable[tuple[int, str]]]
"""Each bracket of a text outside strings and comments, with its offset."""


def brackets_by_look(text: str) -> Iterator[tuple[int, str]]:
    """The brackets of a text in any language."""
    return ((match.start(), match[0]) for match in _QUOTED_OR_BRACKET.finditer(text) if match[0] in "()[]{}")


class Ending:
    """Where fills of one hole end."""

    def __init__(
        self,
        before: str = "",
        after: str = "",
        starts_with: str = "",
        *,
        current: str = "",
        closable: str | None = None,
        quotes: str | None = None,
        has_fences: bool = True,
        brackets: Brackets = brackets_by_look,
    ) -> None:
        """`before` and `after` are the text around the hole, whose fills begin with `starts_with`. It leaves its block
        where its `current` text does.

        `closable`: the closing brackets that a fill may write, in order; `quotes`: what ends the string that the hole
        is in, empty for code; None: as the text around shows. `has_fences`: the file may have fences of Markdown.
        """
        self._brackets = brackets
        self._before = before[-_WINDOW_CHARACTERS:].replace("\r\n", "\n").replace("\r", "\n")
        self._after = after[:_WINDOW_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n")
        self._line_start = self._before.rfind("\n") + 1
        self._front = self._before[self._line_start :]
        self._rest, *below = self._after.split("\n")
        self._below = [line.rstrip() for line in below if line.strip()]
        self._has_fences = has_fences or before.startswith("```") or "\n```" in before or "\n```" in after
        self._given_lines = starts_with.count("\n")
        self._starts_line = not self._front.strip() or self._given_lines > 0
        self._indent = _indentation((self._front + starts_with).rpartition("\n")[2])
        if any(map(self._is_outside, current.split("\n")[1:])):
            self._indent = ""
        self._first_below = self._below[0] if self._below else None
        self._ends_block = bool(self._below) and self._is_end(self._below[0])
        self._given_closable = closable
        self._quotes = quotes
        # Nothing but the text tells of a string that is not closed yet, and a part of a text may begin inside of one.
        look = before if quotes is None or len(before) < _WINDOW_CHARACTERS else self._front
        self._open_quotes = {mark: int(mark == quotes or look.count(mark) % 2 > 0) for mark in _MULTILINE_QUOTES}

    def of_lines(self, text: str) -> str:
        """The unfinished `text` of several lines up to its end, as far as its whole lines show one, or the start of its
        last.
        """
        start = text.rfind("\n") + 1
        lines = text if self._begins_outside(text, start) else text[:start]
        kept = self.in_block(lines, is_whole=False)
        return text if kept == lines else kept

    def cut(self, text: str) -> str:
        """The whole `text` up to its end."""
        return self.in_line(self.in_block(text))

    def in_line(self, text: str) -> str:
        """The text without what closes brackets around the hole, or repeats the rest of the hole's line."""
        return self.without_rest(self.in_brackets(text))

    def in_brackets(self, text: str) -> str:
        """The text up to the first bracket outside of its string that it closes, did not open and may not close."""
        closer = re.search(rf"(?<!\\)(?:\\\\)*{re.escape(self._quotes)}", text) if self._quotes else None
        if self._quotes and closer is None:  # whether its end is that of the string, only a parse tells
            return text
        first = closer.end() if closer else 0
        own: list[str] = []
        closed = 0
        front = self._front if self._quotes is None else ""
        for offset, bracket in self._brackets(front + text[first:]):
            end = first + offset - len(front)
            if end < first:
                continue
            if bracket in CLOSERS:
                own.append(CLOSERS[bracket])
            elif own and own[-1] == bracket:
                own.pop()
            elif not own and self._closable[closed : closed + 1] == bracket:
                closed += 1
            elif self._given_closable is not None or any(bracket == closer for _, closer in self._closers):
                line = text.rfind("\n", 0, end)
                return text[:line].rstrip("\r") if line >= 0 and not text[line:end].strip() else text[:end]
        return text

    def in_block(self, text: str, *, is_whole: bool = True) -> str:
        """The text before the lines that leave the hole's block, or repeat the lines below."""
        lines = text.split("\n")
        end = first = self._given_lines + 1
        if self._starts_line and not self._given_lines:
            first = 0
        for index in range(first, len(lines)):
            is_out = index and self._is_outside(lines[index])
            if not (is_out and _COMMENT.match(lines[index].lstrip())) and lines[index].strip():
                if is_out or self._repeats_below(lines, index, is_whole=is_whole):
                    kept = "\n".join(lines[: min(end, index)]).rstrip("\r")
                    if not self._is_in_string(kept) and _pair_end(self._brackets(text), len(kept)) == len(kept):
                        return kept
                end = index + 1
        return text

    def without_rest(self, text: str) -> str:
        """The text without an ending that repeats the rest of the line, so that it lacks the fewest partners."""
        cuts = self.line_cuts(text.rstrip())
        return min((*cuts, text), key=self._lacking) if cuts else text

    def before_rest(self, text: str) -> str:
        """The text up to where it has all the rest of the line, and more after that; empty if it has not."""
        start = text.find(self._rest.strip()) if self._rest.strip() else -1
        return text[: _pair_end(self._brackets(text), start)] if start > 0 else ""

    def line_cuts(self, text: str) -> list[str]:
        """The text without each ending that the rest of the line begins with, shortest first."""
        cuts = set[str]()
        brackets = list(self._brackets(text))
        needs_angle = _angles_open(self._front) > 0
        for after in (self._rest, self._rest.lstrip()):
            for length in range(min(len(text), len(after), _LONGEST_REPEAT), 0, -1):
                if text.endswith(after[:length]) and after[:length].strip():
                    kept, follows = text[:-length], after[length : length + 1]
                    splits_word = _is_word(kept[-1:]) and _is_word(after[0])
                    splits_angles = needs_angle and _angles_open(kept) > max(_angles_open(text), 0)
                    if not (splits_word or splits_angles or (_is_word(after[length - 1]) and _is_word(follows))):
                        cuts |= {kept, text[: _pair_end(brackets, len(kept))]}
        closer = self._rest.lstrip()[:1]
        start = text.rfind(closer) if closer in _OPENERS else -1
        if start >= 0 and not any(map(_is_word, text[start:])):
            cuts.add(text[:start])
        return sorted(cuts - {text}, key=len)[:_MOST_CUTS]

    @property
    def is_in_prose(self) -> bool:
        """Whether the hole seems to be in a comment or a string of several lines."""
        return any(self._open_quotes.values()) or _COMMENT_LINE.search(self._front) is not None

    @property
    def is_in_brackets(self) -> bool:
        """Whether the text in front of the hole leaves a bracket open."""
        return bool(self._opened)

    def _lacking(self, text: str) -> int:
        """How many brackets and quotes of the hole's line lack a partner with this fill."""
        outer = "".join(opener for start, opener in self._opened if start < self._line_start)
        line = outer + self._front + text + self._rest
        return sum(map(len, _unpaired(self._brackets(line)))) + _ends_in_string(line)

    def _is_outside(self, line: str) -> bool:
        """Whether a line begins further left than the hole's, and not with a bracket's end or a directive."""
        code = line.strip()
        is_less = bool(code) and _width(_indentation(line)) < _width(self._indent)
        is_explanation = not self._has_fences and line.startswith("```")
        return (is_less and code[0] not in ")]}" and not re.match(r"#\w", code)) or is_explanation

    def _begins_outside(self, text: str, start: int) -> bool:
        """Whether an unfinished line from `start` on leaves the block, whatever follows: it is in no brackets."""
        line = text[start:]
        is_code = bool(line.strip()) and line.lstrip()[0] not in "#`"
        return is_code and start > 0 and self._is_outside(line) and not _unpaired(self._brackets(text[:start]))[1]

    def _is_in_string(self, text: str) -> bool:
        """Whether a string of several lines is open after `text`, which opens or closes one."""
        return any((count := text.count(mark)) and (is_open + count) % 2 for mark, is_open in self._open_quotes.items())

    def _is_end(self, below: str) -> bool:
        """Whether the first line below leaves the block, or closes what the hole's line opens."""
        indent = _indentation(below)
        closes = below[len(indent) :][:1] == CLOSERS.get(self._front.rstrip()[-1:])
        return _width(indent) < _width(self._indent) or (indent == self._indent and closes)

    def _repeats_below(self, lines: Sequence[str], index: int, *, is_whole: bool) -> bool:
        """Whether the lines from `index` on equal the first lines below, or begin with several of them."""
        first = (self._front + lines[0] if index == 0 else lines[index]).rstrip()
        if first != self._first_below or self._rest.strip():
            return False
        if self._ends_block and not _has_letter(first):
            return True
        rest = [first, *(line.rstrip() for line in lines[index + 1 :] if line.strip())]
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(rest, self._below, strict=False)))
        is_all = same == len(rest if is_whole else self._below)
        return _has_letter("".join(rest[:same])) and (is_all or same >= _REPEATED_LINES)

    @cached_property
    def _opened(self) -> "_Places":
        """The brackets open in front of the hole."""
        return _unpaired(self._brackets(self._before))[1]

    @cached_property
    def _closers(self) -> "_Places":
        """The closing brackets of the rest of the line that close what is open there; without any, the first below."""
        return _unpaired(self._brackets(self._rest))[0] or _unpaired(self._brackets(self._after))[0][:1]

    @cached_property
    def _closable(self) -> str:
        """The closing brackets that the text after the hole lacks, innermost first: of the line, if that has some."""
        if self._given_closable is not None:
            return self._given_closable
        if self._closers and self._closers[-1][0] < len(self._rest):
            return self._lacking_in_line([closer for _, closer in self._closers])
        start, closer = next(iter(self._closers), (0, ""))
        indent = self._after[self._after.rfind("\n", 0, start) + 1 : start]
        found = ""
        for offset, opener in reversed(self._opened):
            indent_of_opener = _indentation(self._before[self._before.rfind("\n", 0, offset) + 1 : offset])
            is_further_left = not indent.strip() and _width(indent) < _width(indent_of_opener)
            if closer == CLOSERS[opener] and not is_further_left:
                break
            found += CLOSERS[opener]
        return found

    def _lacking_in_line(self, closers: list[str]) -> str:
        """The partners of the innermost brackets of the hole's line that its `closers` leave open."""
        found = ""
        for start, opener in self._opened:
            if start >= self._line_start:
                closer = CLOSERS[opener]
                is_closed = closer in closers
                if is_closed:
                    closers.remove(closer)
                found = "" if is_closed else closer + found
        return found


_Places = list[tuple[int, str]]


def _unpaired(brackets: Iterable[tuple[int, str]]) -> tuple[_Places, _Places]:
    """The closing and the opening brackets that have no partner."""
    closers: _Places = []
    openers: _Places = []
    for offset, bracket in brackets:
        if bracket in CLOSERS:
            openers.append((offset, bracket))
        elif openers and CLOSERS[openers[-1][1]] == bracket:
            openers.pop()
        else:
            closers.append((offset, bracket))
    return closers, openers


def _pair_end(brackets: Iterable[tuple[int, str]], start: int) -> int:
    """The end of the outermost pair of brackets that a cut at `start` would split; `start` if there is none."""
    opened: _Places = []
    end = start
    for offset, bracket in brackets:
        if bracket in CLOSERS:
            opened.append((offset, bracket))
        elif opened and CLOSERS[opened[-1][1]] == bracket and opened.pop()[0] < start <= offset:
            end = offset + 1
    return end


def _ends_in_string(text: str) -> bool:
    """Whether the last line leaves a quote without its partner."""
    opened = ""
    for quote in re.findall(r"\\.|[\"'`]", text.rpartition("\n")[2]):
        if quote == opened:
            opened = ""
        elif not opened and len(quote) == 1:
            opened = quote
    return bool(opened)


def _angles_open(text: str) -> int:
    """How many more angle brackets open than close, arrows left out."""
    return text.count("<") - len(re.findall(r"(?<![-=])>", text))


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _width(indent: str) -> int:
    """A tab is as wide as the four spaces that a model may write instead."""
    return len(indent.expandtabs(4))


def _is_word(character: str) -> bool:
    """Whether a character can be part of a name; False for an empty string."""
    return bool(character) and ("a" + character).isidentifier()


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))

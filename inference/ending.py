"""Finds where a fill ends, by the text around its hole: the decoder stops there, and every answer is cut there.

A fill ends before it closes a bracket that it did not open, leaves its block, or repeats the text that follows. An
automatic suggestion also ends before its first improbable token. Has no parser: recognises strings and comments
lexically, unless the caller knows better.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, takewhile
from typing import TypeVar

CLOSERS = {"(": ")", "[": "]", "{": "}"}
"""The closing bracket of each opening one."""
QUOTES = ('"', "'", "`")
CLOSING = ")]}\"'`"
"""What an editor adds behind the cursor where one opens a bracket or string."""
TAB_WIDTH = 4
_OPENERS = {closer: opener for opener, closer in CLOSERS.items()}
_WINDOW_CHARS = 4_000
"""How much text on each side of the hole to look at: a file may be a single line."""
_MAX_REPEAT_CHARS, _MAX_CUTS = 400, 16
_MIN_REPEATED_LINES = 2
"""A fill that repeats at least this many of the lines below ends before them, even if more lines follow."""
_QUOTED_OR_BRACKET = re.compile(
    r"\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|\"(?:\\.|[^\"\\\n])*\"?|`(?:[^`$\n]|\$(?!\{))*`?"
    r"|(?<=[&<])'\w+(?!['\w])|'\w+(?=>)|(?:(?<!\w)|(?<=\b[bfruBFRU])|(?<=\b[bfruBFRU]{2}))'(?:\\.|[^'\\\n])*'?|[()\[\]{}]"
)
"""A string may be unfinished; what it holds closes nothing. The name of a lifetime is none, nor code in a template."""
_TEMPLATE_PREFIX = re.compile(r"(?:(?<!\w)(?i:r?[ft]r?)|\$@?|@\$)\Z")
"""Prefixes of strings whose braces hold code. In other strings, code begins with `${` or `#{`."""
_EMBEDDED = r"(?:[$#]\{|\{\$)(?:[^{}]|\{[^{}]*\})*\}|\$\((?:[^()]|\([^()]*\))*\)"
"""Code in a string, which may hold strings: it ends none."""
_MULTILINE_QUOTES = ('"""', "'''", "`")
_LITERAL = re.compile(
    r"(?:\b\w{1,3})?(?:\"\"\"(?s:.*?)(?:\"\"\"|\Z)|'''(?s:.*?)(?:'''|\Z)|\"(?:\\.|[^\"\\\n])*(?:\"|$)|`(?:\\.|[^`\\])*(?:`|\Z))"
    r"|(?<=[&<])'\w+(?!['\w])|'\w+(?=>)|(?<!\w)[bfruBFRU]{0,2}'(?:\\.|[^'\\\n])*(?:'|$)"
    r"|(?<![\w.])\.?\d(?:[\w.]|(?<=[eE])[-+](?=\d))*",
    re.MULTILINE,
)
"""A string with its prefix, or a number: a fill never ends inside one."""
_WHOLE_END = re.compile(r"(?:[\w)\]}\"'`;]|(?<![:\s]):|(?<=[\w\])>\"'/?])>)\Z")
"""How the part of a line of code that is shown may end."""
_MIN_CHARS = 3
"""The start of a fill with fewer characters is not worth showing."""
_COMMENT = re.compile(r"#(?![\w!])")
"""The start of a comment line, which belongs to the code below it. C's directives are no comments."""
_COMMENT_LINE = re.compile(r"^\s*(?:#(?![\w!\[])|//|/\*|\*\s|--\s|;;|%\s|<!--)|(?:\s#|[;{}),]\s*//|\s/\*)\s")
_UNFINISHED = re.compile(
    r"(?:(?:[A-Za-z_]\w*|[^\w.]|^)\.|[(\[{,@]|[-=]>|::|&&|\|[|>]|<<|(?<![^\w\s]{2})="
    r"|[\w)\]\"'](?:\s*(?:\*?\*|[%^+])|\s*-)|\s(?:>>|\?[?:]|[/&|<>?~]|[<>]=|[!=]==?)"
    r"|\b(?:and|as|await|extends|from|implements|import|in|instanceof|is|new|not|or)\s)\s*\Z"
)
"""A dot, operator, comma, opening bracket or word that does not end a line of code."""
_WILDCARD = re.compile(r"(?:\bimport\s*|\.|::)\*\s*\Z")
_BLOCK_COMMENTS = (r"/\* \*/", "<!-- -->", r"--\[\[ \]\]", "{- -}", r"\(\* \*\)", "<# #>", "#= =#", "=begin =end")
_OPEN_COMMENT = re.compile(
    "(?ms)" + "|".join(rf"^[ \t]*{start}(?![^\s*!|])(?!.*{end})" for start, end in map(str.split, _BLOCK_COMMENTS))
)
"""A comment of several lines that begins a line and has no end."""

_COMMENT_START = re.compile(r"\s*(?:[#%;]+\s|//|/\*|--|<!--|\(\*|\{-)")
_EXTENSIONS = (
    r"(?:c|cc|cpp|cs|css|go|h|hpp|html?|java|json|jsx?|kt|lua|md|mjs|php|pyi?|rb|rs|scss|sh|sql|swift|toml|tsx?|txt|vue"
    r"|xml|ya?ml)"
)
"""Extensions of file names that models write instead of the file's own name."""

_COMMENT_ENDS = ("*/", "-->", "-}", "*)", "=#", "=end")

CONTROL_TOKEN = re.compile(
    r"<\|\w[\w-]*\|>|<｜[^｜\n]{1,30}｜>|<\[(?:fim-|begin▁|end▁|PAD▁|SEP▁)[\w▁-]*\]>"
    r"|<(?:fim_(?:prefix|suffix|middle|pad)|file_sep|start_of_turn|end_of_turn)>"
)
"""A control token of some model family's prompts, which code hardly ever contains."""

BracketFinder = Callable[[str], Iterable[tuple[int, str]]]
"""Each bracket of a text outside strings and comments, with its offset."""


def lexical_brackets(text: str) -> Iterator[tuple[int, str]]:
    """The brackets of a text in any language."""
    return ((match.start(), match[0]) for match in _QUOTED_OR_BRACKET.finditer(text) if match[0] in "()[]{}")


class FillEnding:
    """Where fills of one hole end."""

    def __init__(
        self,
        prefix: str = "",
        suffix: str = "",
        starts_with: str = "",
        *,
        current: str = "",
        name: str | None = None,
        closable: str | None = None,
        quotes: str | None = None,
        has_fences: bool = True,
        brackets: BracketFinder = lexical_brackets,
    ) -> None:
        """The hole is between `prefix` and `suffix`. Its fills begin with `starts_with` and may leave their block if
        its `current` text does. `name` is the file's name, if the prompt shows it.

        `closable`: the closing brackets that a fill may write, in order, after those that it replaces. `quotes`: the
        quotes that end the string around the hole; empty in code. Where one of these is None, the surrounding text
        decides. `has_fences`: the file may have Markdown fences.
        """
        self._brackets = brackets
        self._prefix = prefix[-_WINDOW_CHARS:].replace("\r\n", "\n").replace("\r", "\n")
        self._suffix = suffix[:_WINDOW_CHARS].replace("\r\n", "\n").replace("\r", "\n")
        self._around = self._prefix + current + self._suffix
        self._line_start = self._prefix.rfind("\n") + 1
        self._line_prefix = self._prefix[self._line_start :]
        self._line_suffix, *below = self._suffix.split("\n")
        self._lines_below = [line.rstrip() for line in below if line.strip()]
        self._has_fences = has_fences or prefix.startswith("```") or "\n```" in prefix or "\n```" in suffix
        self._starts_with = starts_with
        self._quotes = quotes
        tail = current.removeprefix(starts_with)
        num_open = len(unpaired(brackets(self._line_prefix))[1]) + bool(quotes)
        replaced = self._closers_in(current) if tail.strip(CLOSING) else tail[max(len(tail) - num_open, 0) :]
        self.replaced_closers = replaced if quotes is not None and current.endswith(replaced) else ""
        self._name = name
        self._forced_lines = starts_with.count("\n")
        self._starts_line = not self._line_prefix.strip() or self._forced_lines > 0
        self._indent = _indentation((self._line_prefix + starts_with).rpartition("\n")[2])
        if any(map(self._is_outside, current.split("\n")[1:])):
            self._indent = ""
        self._first_below = self._lines_below[0] if self._lines_below else None
        self._ends_block = bool(self._lines_below) and self._is_end(self._lines_below[0])
        replaced_brackets = self.replaced_closers.removeprefix(quotes or "")
        self._caller_closable = None if closable is None else replaced_brackets + closable
        # Only the text shows a string that is not closed yet, but a cut-off text may begin inside of one.
        context = prefix if quotes is None or len(prefix) < _WINDOW_CHARS else self._line_prefix
        self._open_quotes = {mark: int(mark == quotes or context.count(mark) % 2 > 0) for mark in _MULTILINE_QUOTES}

    def cut_unfinished(self, text: str) -> str:
        """Cuts an unfinished text of several lines where its block ends, if its whole lines or the start of the last
        line show that.
        """
        start = text.rfind("\n") + 1
        lines = text if self._begins_outside(text, start) else text[:start]
        block = self.cut_at_block_end(lines, is_whole=False)
        return text if block == lines else block

    def cut(self, text: str) -> str:
        return self.cut_at_closer_or_line_suffix(self.cut_at_block_end(text))

    def cut_at_closer_or_line_suffix(self, text: str) -> str:
        """Cuts text that closes brackets around the hole, or that repeats the rest of the hole's line."""
        return self.without_line_suffix(self.cut_at_closer(text))

    def cut_at_closer(self, text: str) -> str:
        """Cuts the text before the first closing bracket that it did not open and may not close. Brackets in the string
        that the hole is in do not count.
        """
        first = _end_of_string(text, self._quotes or "")
        line_prefix = self._line_prefix if self._quotes is None else ""
        brackets = self._brackets(line_prefix + text[first:])
        offsets = ((first + offset - len(line_prefix), bracket) for offset, bracket in brackets)
        num_closed = 0
        for end, bracket in unpaired((end, bracket) for end, bracket in offsets if end >= first)[0]:
            if self._closable[num_closed : num_closed + 1] == bracket:
                num_closed += 1
            elif self._caller_closable is not None or any(bracket == closer for _, closer in self._closers):
                line = text.rfind("\n", 0, end)
                return text[:line].rstrip("\r") if line >= 0 and not text[line:end].strip() else text[:end]
        return text

    def without_line_start(self, text: str) -> str:
        """Cuts a repeat of the start of the hole's line: `x = ` before `x = 1` leaves `1`.

        Cuts nothing after an opening bracket, and no start without a letter, which may be data.
        """
        start = self._line_prefix.lstrip()
        bare = start.rstrip()
        if self._starts_with or not has_letter(start) or bare[-1] in CLOSERS:
            return text
        tail = text.lstrip(" \t")
        follows = tail[len(start) : len(start) + 1]
        goes_on = start == bare and (follows == "=" or (is_word_char(start[-1]) and is_word_char(follows)))
        if not tail.startswith(start) or goes_on:
            return text
        tail = tail[len(start) :]
        return tail.lstrip(" \t") if start != bare else tail

    def repeats_line_above(self, text: str) -> bool:
        """Whether the first line of the text repeats the line above the hole, if the text starts that line."""
        first = text.removeprefix(self._starts_with).partition("\n")[0] if self._starts_line else ""
        return has_letter(first) and first.strip() == self._line_above.strip()

    def cut_at_block_end(self, text: str, *, is_whole: bool = True) -> str:
        """Cuts the text before the lines that leave the hole's block, repeat the lines below, or begin another file."""
        lines = text.split("\n")
        end = first = self._forced_lines + 1
        if self._starts_line and not self._forced_lines:
            first = 0
        for index in range(first, len(lines)):
            begins_file = self._begins_file(lines, index)
            is_out = index and self._is_outside(lines[index])
            is_comment = is_out and not begins_file and _COMMENT.match(lines[index].lstrip()) is not None
            is_of_next = is_comment and not (is_whole and not "".join(lines[index + 1 :]).strip())
            if not is_of_next and lines[index].strip():
                if is_out or begins_file or self._repeats_below(lines, index, is_whole=is_whole):
                    block = "\n".join(lines[: min(end, index)]).rstrip("\r")
                    if not self._is_in_string(block) and _pair_end(self._brackets(text), len(block)) == len(block):
                        return block
                end = index + 1
        return text

    def without_line_suffix(self, text: str) -> str:
        """Cuts an ending that repeats the rest of the line, so that the fewest brackets and quotes are unpaired."""
        cuts = self.line_suffix_cuts(text.rstrip())
        return min((*cuts, text), key=self._count_unpaired) if cuts else text

    def text_before_line_suffix(self, text: str) -> str:
        """The text before a copy of the whole rest of the line, if more follows that; empty without one."""
        start = text.find(self._line_suffix.strip()) if self._line_suffix.strip() else -1
        return text[: _pair_end(self._brackets(text), start)] if start > 0 else ""

    def line_suffix_cuts(self, text: str) -> list[str]:
        """The text without each ending that the rest of the line begins with, shortest first."""
        cuts = set[str]()
        brackets = list(self._brackets(text))
        needs_angle = _angles_open(self._line_prefix) > 0
        for suffix in (self._line_suffix, self._line_suffix.lstrip()):
            for length in range(min(len(text), len(suffix), _MAX_REPEAT_CHARS), 0, -1):
                if text.endswith(suffix[:length]) and suffix[:length].strip():
                    head, follows = text[:-length], suffix[length : length + 1]
                    splits_word = is_word_char(head[-1:]) and is_word_char(suffix[0])
                    splits_angles = needs_angle and _angles_open(head) > max(_angles_open(text), 0)
                    splits_next_word = is_word_char(suffix[length - 1]) and is_word_char(follows)
                    if not (splits_word or splits_next_word or splits_angles):
                        cuts |= {head, text[: _pair_end(brackets, len(head))]}
        closer = self._line_suffix.lstrip()[:1]
        start = text.rfind(closer) if closer in _OPENERS else -1
        if start >= 0 and not any(map(is_word_char, text[start:])):
            cuts.add(text[:start])
        return sorted(cuts - {text}, key=len)[:_MAX_CUTS]

    def cut_at_low_prob(self, text: str, offset: int) -> str:
        """Cuts a text whose token at `offset` is improbable: after a whole line if there are several, or a whole word.

        Never ends in a string or number that the text begins, where code cannot end, or after an opening bracket
        that the rest of the line does not close. Empty if too little remains (see `is_enough`).
        """
        if not text[offset:].strip():
            return text
        start, end, previous = len(self._starts_with), offset, -1
        literals = [] if self.is_in_prose and not self._quotes else [*self._literals(text)]
        while start < end != previous:
            previous = end
            end = min((first for first, last in literals if first < end < last), default=end)
            end = self._end_of_whole_part(text, end)
        return text[:end] if self.is_enough(text[start:end], text[end:]) else ""

    def is_enough(self, part: str, rest: str) -> bool:
        """Whether to show only `part` of a fill, without `rest`: some characters, or all before a replaced closer."""
        is_long = len(part.strip()) >= _MIN_CHARS or rest.startswith(tuple(self.replaced_closers))
        return is_long and any(map(str.isalnum, part))

    def _literals(self, text: str) -> Iterator[tuple[int, int]]:
        """The ranges of the strings and numbers in a text, and of code in the string that the hole is in."""
        first = _end_of_string(text, self._quotes or "")
        yield from (match.span() for match in re.finditer(_EMBEDDED, text[:first]))
        line = "" if self._quotes else self._line_prefix
        for match in _LITERAL.finditer(line + text, first):
            if match.end() > len(line):
                yield max(match.start() - len(line), 0), match.end() - len(line)

    def _end_of_whole_part(self, text: str, end: int) -> int:
        """The last end of a line in `text[:end]`, or of a word in its only line, where the code can end."""
        start = len(self._starts_with)
        lines, _, last = text[:end].rpartition("\n")
        if lines[start:].strip():
            is_whole_line = last.strip() and not text[end:].partition("\n")[0].strip()
            end = len((text[:end] if is_whole_line else lines).rstrip())
            while "\n" in text[start:end].strip() and not self._can_end_with(text[:end]):
                end = len(text[: text.rindex("\n", 0, end)].rstrip())
        elif is_word_char(text[end - 1 : end]) and is_word_char(text[end : end + 1]):
            end = _last_token_start(text, end)
        end = len(text[:end].rstrip())
        while end > start and not self._can_end_with(text[:end]):
            end = len(text[: _last_token_start(text, end)].rstrip())
        return end

    def _can_end_with(self, text: str) -> bool:
        """Whether the text does not end in an operator, an opening bracket, a backslash or another unfinished token."""
        line = (self._line_prefix + text).rpartition("\n")[2]
        is_prose = self.part_in_string(text) == text if self._quotes else self.is_in_prose
        if is_prose or _COMMENT_LINE.search(line):
            return not text.endswith("\\")
        if text[-1:] in CLOSERS:
            return bool(self._line_suffix.strip()) and self._count_unpaired(text) < self._count_unpaired(text[:-1])
        is_open = _UNFINISHED.search(f"{line} ") is not None or self.leaves_bracket_open(text)
        return _WHOLE_END.search(text) is not None and not is_open

    @property
    def is_in_prose(self) -> bool:
        """Whether the hole seems to be in a comment or a string."""
        return any((self._quotes, *self._open_quotes.values(), open_quote(self._line_prefix), self._is_in_comment))

    @cached_property
    def _is_in_comment(self) -> bool:
        """Whether the hole seems to be in a comment."""
        starts = _COMMENT_LINE.search(self._line_prefix) or _OPEN_COMMENT.search(self._prefix)
        return starts is not None or bool(self._quotes and self._quotes in _COMMENT_ENDS)

    @property
    def is_in_brackets(self) -> bool:
        """Whether the text before the hole leaves a bracket open."""
        return bool(self._opened)

    @property
    def needs_text(self) -> bool:
        """Whether the code would be incomplete with an empty fill."""
        line = (self._line_prefix + self._starts_with).rpartition("\n")[2]
        is_code = not (self.is_in_prose or open_quote(line) or _WILDCARD.search(line))
        if not (is_code and _UNFINISHED.search(line)):
            return False
        last, line_suffix = line.rstrip()[-1], self._line_suffix.strip()
        if line_suffix:
            return line_suffix[0] in ")]};,:" and line_suffix[0] != CLOSERS.get(last)
        is_in_list = last == "," and bool(self._opened) and self._opened[-1][0] < self._line_start
        is_deeper_below = indent_width(_indentation(self._first_below or "")) > indent_width(_indentation(line))
        goes_on_below = last != "." and (is_deeper_below or (self._ends_block and last in CLOSERS))
        return not (is_in_list or goes_on_below)

    def leaves_bracket_open(self, text: str) -> bool:
        """Whether the text opens a bracket in code, or a string behind the hole's own, that its line does not close."""
        string = self.part_in_string(text)
        if string and self.replaced_closers.startswith(QUOTES) and open_quote(text[len(string) + 1 :]):
            return True
        closers, openers = unpaired_in(text, self._quotes or "", self._brackets)
        if not openers or (self.is_in_prose and not self.replaced_closers):
            return False
        if not self._line_suffix.strip():
            return len(closers) < len(self.replaced_closers)
        return self._count_unpaired(text) > self._count_unpaired("")

    def part_in_string(self, text: str) -> str:
        """The part of the text that is in the string around the hole; empty in code."""
        return text[: _end_of_string(text, self._quotes or "") - len(self._quotes or "")]

    def add_replaced_closers(self, text: str) -> str:
        """Adds the closing quote and brackets that the hole replaces and the text does not write, or has cut off."""
        new_closers = self._closers_in(text)[len(self._closers_in(self._starts_with)) :]
        pairs = zip(new_closers, self.replaced_closers, strict=False)
        missing = self.replaced_closers[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) :]
        return text + (missing and open_quote(text[_end_of_string(text, self._quotes or "") :]) + missing)

    def _closers_in(self, text: str) -> str:
        """The quote that ends the string around the hole, and brackets, that the text closes but did not open."""
        return "".join(closer for _, closer in unpaired_in(text, self._quotes or "", self._brackets)[0])

    def is_unwanted(self, text: str) -> bool:
        """Whether to prefer any other text, even a less likely one."""
        return self.leaves_bracket_open(text) or self.echoes_file_name(text)

    def is_comment(self, text: str) -> bool:
        """Whether the hole seems to be in a comment, or the text to begin one on its line."""
        typed = (self._line_prefix + self._starts_with).rpartition("\n")[2]
        starts = _COMMENT_START.match(typed + text[len(self._starts_with) :])
        return self._is_in_comment or starts is not None or typed.strip() == "#"

    def echoes_file_name(self, text: str) -> bool:
        """Whether the text makes its comment just a file name, or begins a comment or string with the name of the
        hole's file, which nothing else in the file mentions: the model echoes it from the prompt.
        """
        typed = (self._line_prefix + self._starts_with).rpartition("\n")[2]
        line = typed + text[len(self._starts_with) :]
        is_comment = self.is_comment(text)
        start = 0 if is_comment else 1 + max(map(typed.rfind, "\"'`"))
        is_prose = is_comment or start or self.is_in_prose or line.lstrip().startswith(QUOTES)
        if self._name is None or not is_prose or (is_comment and has_letter(self._line_suffix)):
            return False
        own = re.escape(self._name) or "(?!)"
        mention = re.compile(rf"\W*(?:[\w.-]+/)*{own}(?!\w)" + ("" if "." in self._name else r"\W*\Z"))
        match = mention.match(line, start)
        if match and match.end() > len(typed) and not re.search(rf"(?<!\w){own}(?!\w)", self._around):
            return True
        match = self._only_a_name.match(line) if is_comment else None
        is_listed = match and not match["own"] and self._only_a_name.match(self._line_above)
        is_asked = "file" in typed.lower()
        return bool(match and match.end() > len(typed) and not (is_listed or is_asked))

    @property
    def _line_above(self) -> str:
        """The last line above the hole's that is not blank."""
        return self._prefix[: self._line_start].rstrip().rpartition("\n")[2]

    @cached_property
    def _only_a_name(self) -> re.Pattern[str]:
        """Matches the name of the hole's file, or a similar name, with no other words up to the end of its line."""
        name = self._name or ""
        stem, _, extension = map(re.escape, name.rpartition("."))
        own = rf"(?P<own>{re.escape(name) or '(?!)'})"
        other = rf"[\w./@-]*(?:[\w@-]\. ?(?:{extension}|{_EXTENSIONS})|\b{stem}\.\w+)"
        title = r"(?:@?file(?:name)?\W+|\d+[.)] )?"
        return re.compile(rf"(?i)\W*?{title}(?:{own}|{other}|(?=\([\w-]+\)))(?:\s*\([\w-]+\))?[^\w\n]*(?:\n|\Z)")

    def _count_unpaired(self, text: str) -> int:
        """The number of unpaired brackets and quotes in the hole's line with this fill."""
        outer = "".join(opener for start, opener in self._opened if start < self._line_start)
        line = outer + self._line_prefix + text + self._line_suffix
        return sum(map(len, unpaired(self._brackets(line)))) + len(open_quote(line))

    def _is_outside(self, line: str) -> bool:
        """Whether a line begins further left than the hole's, and with neither a closing bracket nor a directive."""
        code = line.strip()
        is_less = bool(code) and indent_width(_indentation(line)) < indent_width(self._indent)
        is_explanation = not self._has_fences and line.startswith("```")
        return (is_less and code[0] not in ")]}" and not re.match(r"#\w", code)) or is_explanation

    def _begins_file(self, lines: Sequence[str], index: int) -> bool:
        """Whether the line is a comment below the first line that names a file as if a new file began there."""
        if not index or self._name is None or not _COMMENT_START.match(lines[index]):
            return False
        return not _COMMENT_START.match(lines[index - 1]) and self._only_a_name.match(lines[index]) is not None

    def _begins_outside(self, text: str, start: int) -> bool:
        """Whether an unfinished line from `start` on leaves the block, whatever follows: it is in no brackets."""
        line = text[start:]
        is_code = bool(line.strip()) and line.lstrip()[0] not in "#`"
        return is_code and start > 0 and self._is_outside(line) and not unpaired(self._brackets(text[:start]))[1]

    def _is_in_string(self, text: str) -> bool:
        """Whether a string of several lines is open after `text`, which opens or closes one."""
        return any((count := text.count(mark)) and (is_open + count) % 2 for mark, is_open in self._open_quotes.items())

    def _is_end(self, line: str) -> bool:
        """Whether the first line below leaves the block, or closes what the hole's line opens."""
        indent = _indentation(line)
        closes = line[len(indent) :][:1] == CLOSERS.get(self._line_prefix.rstrip()[-1:])
        return indent_width(indent) < indent_width(self._indent) or (indent == self._indent and closes)

    def _repeats_below(self, lines: Sequence[str], index: int, *, is_whole: bool) -> bool:
        """Whether the lines from `index` on equal the first lines below, or begin with several of them."""
        first = (self._line_prefix + lines[0] if index == 0 else lines[index]).rstrip()
        if first != self._first_below or self._line_suffix.strip():
            return False
        if self._ends_block and not has_letter(first):
            return True
        fill_lines = [first, *(line.rstrip() for line in lines[index + 1 :] if line.strip())]
        pairs = zip(fill_lines, self._lines_below, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        is_all = same == len(fill_lines if is_whole else self._lines_below)
        return has_letter("".join(fill_lines[:same])) and (is_all or same >= _MIN_REPEATED_LINES)

    @cached_property
    def _opened(self) -> "_BracketList":
        return unpaired(self._brackets(self._prefix))[1]

    @cached_property
    def _closers(self) -> "_BracketList":
        """The unpaired closing brackets in the rest of the line; without any, the first one below."""
        return unpaired(self._brackets(self._line_suffix))[0] or unpaired(self._brackets(self._suffix))[0][:1]

    @cached_property
    def _closable(self) -> str:
        """The closing brackets that the text after the hole lacks, innermost first; the line's, if it has any."""
        if self._caller_closable is not None:
            return self._caller_closable
        if self._closers and self._closers[-1][0] < len(self._line_suffix):
            return self._unclosed_in_line([closer for _, closer in self._closers])
        start, closer = next(iter(self._closers), (0, ""))
        indent = self._suffix[self._suffix.rfind("\n", 0, start) + 1 : start]
        closable = ""
        for offset, opener in reversed(self._opened):
            indent_of_opener = _indentation(self._prefix[self._prefix.rfind("\n", 0, offset) + 1 : offset])
            is_further_left = not indent.strip() and indent_width(indent) < indent_width(indent_of_opener)
            if closer == CLOSERS[opener] and not is_further_left:
                break
            closable += CLOSERS[opener]
        return closable

    def _unclosed_in_line(self, closers: list[str]) -> str:
        """The closing brackets for those of the hole's line that its `closers` leave open, innermost first."""
        unclosed = ""
        for start, opener in self._opened:
            if start >= self._line_start:
                closer = CLOSERS[opener]
                is_closed = closer in closers
                if is_closed:
                    closers.remove(closer)
                unclosed = "" if is_closed else closer + unclosed
        return unclosed


def first_unlikely_offset(pieces: Sequence[str], probs: Sequence[float], min_prob: float) -> int | None:
    """The offset of the first piece less likely than `min_prob`; None if there is none or `probs` is empty."""
    starts = accumulate(map(len, pieces), initial=0)
    return next((start for start, prob in zip(starts, probs, strict=False) if prob < min_prob), None)


def slice_pieces(
    first: int, end: int, pieces: Sequence[str], probs: Sequence[float]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The pieces, or parts of pieces, within [first, end) of their joined text, with their probabilities."""
    starts = accumulate(map(len, pieces), initial=0)
    parts = [piece[max(first - start, 0) : max(end - start, 0)] for piece, start in zip(pieces, starts, strict=False)]
    return tuple(filter(None, parts)), tuple(prob for part, prob in zip(parts, probs, strict=True) if part)


def merge_typed_piece(
    typed: str, pieces: Sequence[str], probs: Sequence[float]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Merges the pieces of the `typed` text, with which they begin, into one piece of probability 1."""
    tail, tail_probs = slice_pieces(len(typed), sum(map(len, pieces)), pieces, probs)
    return ((typed, *tail), (1.0, *tail_probs)) if typed else (tail, tail_probs)


_BracketList = list[tuple[int, str]]
_Offset = TypeVar("_Offset")


def unpaired(brackets: Iterable[tuple[_Offset, str]]) -> tuple[list[tuple[_Offset, str]], list[tuple[_Offset, str]]]:
    """The closing brackets without an opening one, and the opening ones that are not closed, each with its offset."""
    closers: list[tuple[_Offset, str]] = []
    openers: list[tuple[_Offset, str]] = []
    for offset, bracket in brackets:
        if bracket in CLOSERS:
            openers.append((offset, bracket))
        elif openers and CLOSERS[openers[-1][1]] == bracket:
            openers.pop()
        else:
            closers.append((offset, bracket))
    return closers, openers


def unpaired_in(
    text: str, quotes: str = "", brackets: BracketFinder = lexical_brackets
) -> tuple[_BracketList, _BracketList]:
    """The unpaired brackets of `text`. If it begins in a string with `quotes`, those behind that, whose quotes are the
    first that close.
    """
    first = _end_of_string(text, quotes)
    closers, openers = unpaired((first + offset, bracket) for offset, bracket in brackets(text[first:]))
    return ([(first - len(quotes), quotes)] if quotes and first <= len(text) else []) + closers, openers


def quote_of(closers: str) -> str:
    """The quote with which closers begin, if they end a string."""
    return closers[:1] if closers.startswith(QUOTES) else ""


def _end_of_string(text: str, quotes: str) -> int:
    """The end of a string with `quotes` that contains the start of `text`, beyond it if it does not end; 0 in code."""
    inside = re.match(rf"(?s:{_EMBEDDED}|\\.|(?!{re.escape(quotes)}).)*+", text) if quotes else None
    return inside.end() + len(quotes) if inside else 0


def _pair_end(brackets: Iterable[tuple[int, str]], start: int) -> int:
    """The end of the outermost pair of brackets that a cut at `start` would split; `start` if there is none."""
    opened: _BracketList = []
    end = start
    for offset, bracket in brackets:
        if bracket in CLOSERS:
            opened.append((offset, bracket))
        elif opened and CLOSERS[opened[-1][1]] == bracket and opened.pop()[0] < start <= offset:
            end = offset + 1
    return end


def open_quote(text: str) -> str:
    """The quote of the string that a text ends in, outside of what that embeds; empty if it ends in none."""
    matches = _QUOTED_OR_BRACKET.finditer(text, max(len(text) - _WINDOW_CHARS, 0))
    *_, start = [len(text), *(match.start() for match in matches if match.end() == len(text))]
    last = text[start:]
    is_open = last.startswith(QUOTES) and _end_of_string(last[1:], last[0]) > len(last[1:])
    code = re.search("[{].*" if _TEMPLATE_PREFIX.search(text, max(0, start - 3), start) else r"[#$]\{.*", last)
    return last[0] if is_open and (code is None or code[0].count("{") <= code[0].count("}")) else ""


def _angles_open(text: str) -> int:
    """How many more angle brackets open than close, arrows left out."""
    return text.count("<") - len(re.findall(r"(?<![-=])>", text))


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def indent_width(indent: str) -> int:
    """A tab is as wide as the four spaces that a model may write instead."""
    return len(indent.expandtabs(TAB_WIDTH))


def is_word_char(character: str, extra: str = "") -> bool:
    """Whether a character can be part of a name, or is one of `extra`; False for an empty string."""
    return bool(character) and (("a" + character).isidentifier() or character in extra)


def _last_token_start(text: str, end: int) -> int:
    """The offset of the word or other character at the end of `text[:end]`."""
    word = len(text[:end]) - len(list(takewhile(is_word_char, reversed(text[:end]))))
    return word if word < end else end - 1


def has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))

"""The prompt of an instruction model for a hole, and extraction of the fill from its answer.

Answers may lack a code fence, have words around it, or repeat the text before the hole. Code may contain fences itself,
so the prompt asks for one that is longer than any in the file.
"""

import re
from dataclasses import dataclass

from inference.ending import FillEnding, indent_width
from inference.engine.fim.query import InfillQuery

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}+|~{3,}+)(?P<language>[^\n`]*+)$", re.MULTILINE)
_OPENING = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}+|~{3,}+)(?P<language>[^\n`]*+)\n", re.MULTILINE)
_TEXT = re.compile(r"\s*(md|mdx|markdown|rst|text|txt)\b", re.IGNORECASE)
"""Languages whose files have fenced blocks without a language."""
_TICKS = re.compile(r"`{3,}")
_THOUGHT = re.compile(r"\s*<(think|thinking)>.*?(</\1>\s*|\Z)", re.DOTALL)
_QUOTES = ('"""', "'''")
_WORD_END = re.compile(r"\b\w+\Z")
_OPENERS = (":", "{", "(", "[")
_MAX_REPEATED_LINES = 8
_MAX_LINE_CHARS = 200


def user_message(query: InfillQuery) -> str:
    """The prompt as a single user message, since some models know no other role."""
    hole = _hole_mark(query)
    name = f' path="{query.path[-200:]}"' if query.path.isprintable() and query.path else ""
    language = f' language="{query.language}"' if query.language.isprintable() and query.language else ""
    parts = [f"This file has a hole, marked {hole}. Write the text that belongs into the hole."]
    parts += [f'<context path="{snippet.path[-200:]}">\n{snippet.text}\n</context>' for snippet in query.context]
    parts.append(f"<file{name}{language}>\n{query.prefix}{hole}{query.suffix}\n</file>")
    if query.draft:
        parts.append(
            "The hole holds this draft. Improve it where it is wrong or not finished, else keep it:\n"
            f"<draft>\n{query.draft}\n</draft>"
        )
    if query.instruction:
        parts.append(f"What is wanted of the text: {query.instruction}")
    marks = code_fence(query)
    line = query.prefix.rpartition("\n")[2].strip()[-_MAX_LINE_CHARS:]
    continues = f" It goes on right behind `{line}`." if line and "`" not in line else ""
    lines = " It has one line." if query.single_line else ""
    parts.append(
        f"Answer with the text for the hole alone, in one code block between {marks} and {marks}.{continues}{lines} "
        "Keep the indentation. Repeat nothing of what stands before or behind the hole, and explain nothing."
    )
    return "\n\n".join(parts)


def code_fence(query: InfillQuery) -> str:
    return "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(_whole_text(query)))])


def _hole_mark(query: InfillQuery) -> str:
    text = _whole_text(query)
    return next(mark for n in range(len(text) + 2) if (mark := f"<hole{n or ''}/>") not in text)


def _whole_text(query: InfillQuery) -> str:
    return query.prefix + query.suffix + query.draft


@dataclass(frozen=True)
class FillSpan:
    """The fill in an answer: `answer[start:end]`. `is_closed`: no more of it will come."""

    start: int
    end: int
    is_closed: bool


def find_code_block(answer: str, *, ended: bool) -> FillSpan:
    """Finds the code in a complete or partial answer; that is all of an answer that ended without a fence.

    A block ends at the fence of its own level: a fence with a language opens another inside, and one that is indented
    deeper, or is in a string of several lines, belongs to the code.
    """
    thought = _THOUGHT.match(answer)
    first = thought.end() if thought else 0
    opening = _OPENING.search(answer, first)
    if opening is None:
        return _unfenced(answer, first, ended=ended)
    ticks = opening["ticks"]
    marks = [mark for mark in _FENCE.finditer(answer, opening.end()) if mark["ticks"].startswith(ticks)]
    if not ended and marks and marks[-1].end() == len(answer):  # that line may continue
        marks.pop()
    closing = _closing_fence(opening, marks)
    if closing is None or (not ended and closing.end() == len(answer)):
        tail = answer[opening.end() :]
        end = opening.end() + len(tail if ended else tail.rstrip("`~").rstrip(" \t").removesuffix("\n"))
        return FillSpan(opening.end(), _without_line_end(answer, opening.end(), end), is_closed=False)
    return FillSpan(opening.end(), _without_line_end(answer, opening.end(), closing.start()), is_closed=True)


def _unfenced(answer: str, first: int, *, ended: bool) -> FillSpan:
    if not ended:
        return FillSpan(first, first, is_closed=False)
    text = answer[first:].lstrip()
    start = answer.rfind("\n", first, len(answer) - len(text)) + 1 or first
    end = max(start, len(answer.rstrip()))
    text = text.rstrip()
    ticks = len(text) - len(text.lstrip("`"))
    if ticks and text.endswith("`" * ticks) and "`" not in (inside := text[ticks:-ticks]) and "\n" not in inside:
        return FillSpan(end - ticks - len(inside), end - ticks, is_closed=True)
    return FillSpan(start, end, is_closed=True)


def _closing_fence(opening: re.Match[str], marks: list[re.Match[str]]) -> re.Match[str] | None:
    """The fence that ends a block: the last one if its language, as Markdown, has blocks itself."""
    if _TEXT.match(opening["language"]):
        return next((mark for mark in reversed(marks) if not mark["language"].strip()), None)
    indent = indent_width(opening["indent"])
    levels = [mark for mark in marks if indent_width(mark["indent"]) <= indent] or marks
    return _first_closing(levels, opening.end(), _QUOTES) or _first_closing(levels, opening.end(), ())


def _first_closing(marks: list[re.Match[str]], start: int, quotes: tuple[str, ...]) -> re.Match[str] | None:
    """The first fence at the level of the block that begins at `start`, outside of strings in `quotes`."""
    depth = 1
    counts = dict.fromkeys(quotes, 0)
    for mark in marks:
        for quote in quotes:
            counts[quote] += mark.string.count(quote, start, mark.start())
        start = mark.end()
        depth += 1 if mark["language"].strip() else -1
        if depth == 0 and not any(count % 2 for count in counts.values()):
            return mark
        depth = max(depth, 1)
    return None


def _without_line_end(answer: str, start: int, end: int) -> int:
    if end > start and answer[end - 1] == "\n":
        end -= 2 if answer[max(start, end - 2) : end] == "\r\n" else 1
    return end


def partial_fill(text: str, prefix: str) -> str:
    """The text of an unfinished answer; empty as long as it may still repeat the text before the hole."""
    start = text.lstrip()
    if any(len(start) < len(tail) and tail.startswith(start) for tail in _tails(prefix)):
        return ""
    return _without_repeated_prefix(text, prefix)


def finished_fill(text: str, query: InfillQuery) -> str:
    """The text of a finished answer, without copies of the text around the hole."""
    text = _fix_indent(_without_repeated_prefix(text, query.prefix), query.prefix)
    if query.single_line:
        text = (text.splitlines() or [""])[0]
    return FillEnding(query.prefix, query.suffix, current=query.draft).cut(text)


def _tails(prefix: str) -> list[str]:
    """Texts an answer may repeat, longest first: the last lines and word; one whole line only if it opens a block."""
    lines = prefix.split("\n")[-_MAX_REPEATED_LINES:]
    tails = ["\n".join(lines[first:]).lstrip() for first in range(len(lines))]
    if len(lines) > 1 and not lines[-1].strip() and not lines[-2].rstrip().endswith(_OPENERS):
        del tails[-2]
    word = _WORD_END.search(prefix)
    return [tail for tail in [*tails, *([word[0]] if word else [])] if re.search(r"\w", tail)]


def _without_repeated_prefix(text: str, prefix: str) -> str:
    start = text.lstrip()
    return next((start[len(tail) :] for tail in _tails(prefix) if start.startswith(tail)), text)


def _fix_indent(text: str, prefix: str) -> str:
    """The text for a line that is already indented: removes the first line's indentation and aligns the others."""
    indent = prefix.rpartition("\n")[2]
    if not indent or indent.strip():
        return text
    text = text.lstrip("\n")
    if text.startswith(indent):
        return text[len(indent) :]
    first, *following = text.split("\n")
    if first[:1].isspace() or not following or any(line.startswith(indent) for line in following[-1:] if line.strip()):
        return text
    return "\n".join([first, *(indent + line if line.strip() else line for line in following)])

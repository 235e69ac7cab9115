"""The prompts of edit models: each shows the latest changes and asks for the lines around the cursor, rewritten. They
are written for our edit model, and parsed if a plugin wrote them for its own.

Zeta 2.1, 2 and 1: zed-industries/zed's crates zeta_prompt and zeta. Sweep: the card of sweepai/sweep-next-edit-1.5B.
Code that contains a control text of the prompt is not shown: it would end the prompt.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, takewhile
from string import Formatter

from inference.messages import EditKind, Hunk, NextEditRequest, ScoredEdit
from inference.models.family import common_prefix_and_suffix_lengths
from inference.models.numbered_blocks import add_marks, blocks_between_marks, cut_blocks, remove_marks, rewritten_blocks

MIN_CONFIDENCE = 0.5
"""Below this the model, on average, finds some other token likelier than the one it wrote. Not measured: recorded
answers have no probabilities.
"""
USUAL_REWRITE = 2000, 60
"""The prompt tokens and decoding passes of a rewrite: the median of 60 files was 1,600 to 2,450 tokens of prompt and
170 to 330 of the region, which 40 passes of 8 rows verify. Such a pass takes 1.5 times as long as one of one row.
"""
_MAX_HUNKS, _MAX_HUNK_CHARS = 8, 2_000
"""How many of the latest changes to show, and how many characters of old and new text each may have."""
_AROUND_LINES = 100
"""How many lines to show above and below the region."""
_MAX_LINE_CHARS = 2_000
"""A region with a longer line is generated, not written by hand."""
MAX_PROMPT_CHARS = 100_000
"""The longest prompt of a plugin; usual ones have some 20,000 characters."""
_NAMES: dict[EditKind, re.Pattern[str]] = {
    "sweep": re.compile(r"sweep", re.IGNORECASE),
    "zeta-2.1": re.compile(r"(?<![a-z])zeta[-_ ]?2[-_.]1(?![\d.]*b|\d)", re.IGNORECASE),
    "zeta-2": re.compile(r"(?<![a-z])zeta[-_ ]?2(?![.\d]\d|b)", re.IGNORECASE),
    "zeta": re.compile(r"(?<![a-z])zeta(?![a-z]|[-_ ]?\d(?![\d.]*b))", re.IGNORECASE),
}
LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line with its end, which is always a line feed."""
_WORD = re.compile(rb"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class EditPrompt:
    """A prompt, and the region that its answer rewrites: the whole lines `current`, from offset `start` of the text.

    `stop_strings` end an answer, and `forced` is the start of the rewrite, with which the prompt ends.
    An answer begins with `opening`. If there are `blocks` of the region, it has some of them with their marks.
    """

    text: str
    start: int
    current: str
    forced: str
    stop_strings: tuple[str, ...]
    control_tokens: tuple[str, ...]
    opening: str = ""
    blocks: tuple[str, ...] = ()

    def unchanged_answer(self, answer: str = "") -> str:
        """The answer that leaves unchanged what `answer` rewrites."""
        if self.blocks:
            first, last, _ = rewritten_blocks(self.blocks, answer)
            return add_marks(self.blocks[first:last], first + 1)
        return self.opening + _to_lf(self.current).removeprefix(self.forced)

    def answer_with(self, new: str, stops: Sequence[str]) -> str:
        """The answer that makes the region `new`, unless a stop string would cut that. `stops` are the client's."""
        end = self.stop_strings[0]
        new = self.current if any(stop in new for stop in (*self.stop_strings, *stops)) else new
        answer = self.opening + (new if end.startswith("\n") else _with_eol(new)).removeprefix(self.forced)
        answer = add_marks([new, *[""] * (len(self.blocks) - 1)]) if self.blocks else answer
        return answer if any(stop in end for stop in stops) else answer + end

    def parse_edits(self, answer: str, confidence: float = 1.0) -> tuple[ScoredEdit, ...]:
        """The edits in the model's rewrite; empty if its confidence is below the minimum or nothing changes."""
        new = self.rewritten_region(answer)
        if new == self.current or confidence < MIN_CONFIDENCE:
            return ()
        return (ScoredEdit(self.start, self.start + len(self.current), new, confidence),)

    def confidence(self, tokens: Sequence[tuple[bytes, float]]) -> float:
        """The mean probability of the tokens of an answer that change text, or that follow deleted text; 1 if none."""
        new = b"".join(token for token, _ in tokens)
        stops = [offset for end in self.stop_strings if (offset := new.find(end.encode())) >= 0]
        rewrite = new[: min(stops, default=len(new))]
        unchanged = self.unchanged_answer(rewrite.decode("utf-8", "replace"))
        changed = _changes(unchanged.encode().rstrip(b"\n"), rewrite.rstrip(b"\n"))
        offset, probs = 0, []
        for token, prob in tokens:
            if any(start < offset + len(token) and offset < max(end, start + 1) for start, end in changed):
                probs.append(prob)
            offset += len(token)
        return sum(probs) / len(probs) if probs else 1.0

    def rewritten_region(self, answer: str) -> str:
        """The region's new text; the current one if the answer is blank."""
        for end in self.stop_strings:
            answer = answer.partition(end)[0]
        if self.blocks:
            first, last, new = rewritten_blocks(self.blocks, answer)
            answer = "".join([*self.blocks[:first], new, *self.blocks[last:]])
        for mark in self.control_tokens:
            answer = answer.removeprefix(mark + "\n").replace(mark, "")
        if not answer.strip():
            return self.current
        plain = _to_lf(self.current)
        new = (self.forced + answer).rstrip("\n") + plain[len(plain.rstrip("\n")) :]
        return new.replace("\n", "\r\n") if "\r\n" in self.current else new


@dataclass(frozen=True)
class _Excerpt:
    """The contents of a prompt, with line feeds alone: the region's `current` text, the lines around it, and the latest
    changes. `cursor` is an offset in the region, `first` the number of its first line, from 1, and `forced` the part of
    the rewrite that a parsed prompt already contains.
    """

    path: str
    lines_above: str
    current: str
    lines_below: str
    first: int
    cursor: int
    hunks: tuple[Hunk, ...]
    forced: str = ""

    def region(self, mark: str = "") -> str:
        """The region with a mark for the cursor, and a line feed at its end."""
        return _with_eol(self.current[: self.cursor] + mark + self.current[self.cursor :])

    @property
    def region_above_cursor(self) -> str:
        """The lines of the region above the cursor's line."""
        return self.current[: self.current.rfind("\n", 0, self.cursor) + 1]


@dataclass(frozen=True)
class _PromptFormat:
    """The prompt format of a kind of edit model, which rewrites `radius_lines` above and below the cursor's line.

    `to_fields` converts an excerpt to the fields of the `template`, and `parse_fields` does the opposite. An excerpt
    may not contain `control_tokens`, the first of which marks the cursor. A model needs all `required_tokens`.
    """

    radius_lines: int
    template: str
    to_fields: Callable[[_Excerpt, str], dict[str, str]]
    parse_fields: Callable[[Mapping[str, str], str], _Excerpt]
    stop_strings: tuple[str, ...]
    control_tokens: tuple[str, ...]
    required_tokens: tuple[str, ...] = ()
    opening: str = ""
    forces_start: bool = False
    """Whether the prompt ends with the region's lines above the cursor, as the forced start of the rewrite."""
    is_numbered: bool = False
    """Whether the region is split into numbered blocks."""


def _changes(old: bytes, new: bytes) -> list[tuple[int, int]]:
    """The ranges of `new` that differ from `old`, by words; an empty one where text was deleted."""
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    lead, tail = common_prefix_and_suffix_lengths(old_words, new_words)
    old_words, changed_words = old_words[lead : len(old_words) - tail], new_words[lead : len(new_words) - tail]
    offsets = list(accumulate(map(len, changed_words), initial=sum(map(len, new_words[:lead]))))
    opcodes = SequenceMatcher(None, old_words, changed_words, autojunk=False).get_opcodes()
    return [(offsets[k], offsets[m]) for tag, _, _, k, m in opcodes if tag != "equal"]


def guess_kind(kind: EditKind, name: str) -> EditKind | None:
    """`kind`, or for "auto" the kind of the model with this name; None if the name does not tell."""
    if kind != "auto":
        return kind
    return next((named for named, pattern in _NAMES.items() if pattern.search(name)), None)


def kind_advice(model: str) -> str:
    """Tells a user what to do about a model whose name does not tell its kind."""
    return (
        f"{model} is not the name of a Zeta 2.1, Zeta 2, Zeta or Sweep; choose one of these, or set nextEdit.kind to "
        "the prompt it was trained with: zeta-2.1, zeta-2, zeta or sweep"
    )


def missing_prompt_token(kind: EditKind, knows: Callable[[str], bool]) -> str:
    """A required token that the model's vocabulary lacks, so that the model is of another kind; "" if none."""
    return next((token for token in _FORMATS[kind].required_tokens if not knows(token)), "")


def edit_prompt_for(kind: EditKind, request: NextEditRequest) -> EditPrompt | None:
    """The prompt for the lines around the request's cursor; None if they cannot be shown."""
    spec = _FORMATS[kind]
    cursor = min(request.cursor or 0, len(request.text))
    lines = LINE.findall(request.text)
    row = request.text.count("\n", 0, cursor)
    first = max(0, row - spec.radius_lines)
    end = min(len(lines), row + spec.radius_lines + 1)
    current = "".join(lines[first:end])
    start = sum(map(len, lines[:first]))
    lines_above = "".join(lines[max(0, first - _AROUND_LINES) : first])
    lines_below = "".join(lines[end : end + _AROUND_LINES])
    is_code = current.strip() and max(map(len, lines[first:end])) <= _MAX_LINE_CHARS
    if not is_code or any(mark in lines_above + current + lines_below + request.path for mark in spec.control_tokens):
        return None
    excerpt = _Excerpt(
        path=request.path,
        lines_above=_to_lf(lines_above),
        current=_to_lf(current),
        lines_below=_to_lf(lines_below),
        first=first + 1,
        cursor=len(_to_lf(request.text[start:cursor])),
        hunks=tuple(hunk for hunk in request.hunks if _may_show(hunk, spec.control_tokens))[-_MAX_HUNKS:],
    )
    forced = excerpt.region_above_cursor if spec.forces_start else ""
    text = spec.template.format(**spec.to_fields(excerpt, spec.control_tokens[0]))
    blocks = cut_blocks(excerpt.current) if spec.is_numbered else ()
    return EditPrompt(text, start, current, forced, spec.stop_strings, spec.control_tokens, spec.opening, tuple(blocks))


def parse_edit_prompt(prompt: str) -> tuple[EditPrompt, NextEditRequest] | None:
    """Parses a plugin's prompt, the opposite of `edit_prompt_for`. The request has no id, and its text is the part of
    the file in the prompt. None if the prompt is in no known format. Raises ValueError if it is malformed.
    """
    problem = ""
    for kind, spec in _FORMATS.items():
        cursor = spec.control_tokens[0]
        first, *_, last = (literal for literal, *_ in Formatter().parse(spec.template))
        if not (prompt.startswith(first) and cursor in prompt and last.strip().rpartition("\n")[2] in prompt):
            continue
        if len(prompt) > MAX_PROMPT_CHARS:
            raise ValueError(f"the prompt has more than {MAX_PROMPT_CHARS} characters; send less of the file")
        fields = _fields(spec.template, prompt)
        excerpt = spec.parse_fields(fields, cursor) if fields and fields["region"].count(cursor) == 1 else None
        if excerpt is None or not excerpt.current.startswith(excerpt.forced):
            problem = (
                f"the prompt is not quite that of {kind}: a region with one {cursor} stands between that format's "
                "marks, and a begun answer is its start"
            )
            continue
        above, current, below = excerpt.lines_above, excerpt.current, excerpt.lines_below
        text = above + (_with_eol(current) if below else current) + below
        hunks = tuple(hunk for hunk in excerpt.hunks if _may_show(hunk, spec.control_tokens))
        request = NextEditRequest("", text, hunks, path=excerpt.path, cursor=len(above) + excerpt.cursor)
        blocks = blocks_between_marks(fields["region"].replace(cursor, "")) if fields and spec.is_numbered else ()
        ends, marks, opening = spec.stop_strings, spec.control_tokens, spec.opening
        return EditPrompt(prompt, len(above), current, excerpt.forced, ends, marks, opening, tuple(blocks)), request
    if problem:
        raise ValueError(problem)
    return None


def _fields(template: str, text: str) -> dict[str, str] | None:
    """Parses the fields of a text by its template; None if it does not match. A field may contain the next literal."""
    (first, first_name, *_), *fields_after = Formatter().parse(template)
    fields = dict[str, str]()
    for literal, name, *_ in reversed(fields_after):
        if literal not in text:
            return None
        text, _, fields[name or ""] = text.rpartition(literal)
    return None if fields.get("") else {**fields, str(first_name): text.removeprefix(first)}


def _sections(files: str, mark: str) -> list[tuple[str, str]]:
    """The names and texts of files between marks."""
    parts = re.split(f"^{re.escape(mark)}", files, flags=re.MULTILINE)
    return [(name, text) for name, _, text in (part.partition("\n") for part in parts)]


def _parse_region(region: str, mark: str) -> tuple[str, int]:
    """A region without the cursor's mark, and the cursor's offset. A line feed right after the cursor only ends it."""
    prefix, _, suffix = region.partition(mark)
    return prefix + ("" if suffix == "\n" else suffix), len(prefix)


def _parse_diffs(history: str, head: str, own_path: str) -> Iterator[Hunk]:
    """The changes in diffs, each after a `head` with its path, without line numbers: some plugins count each from 1."""
    heads = [*re.finditer(head, history, re.MULTILINE)]
    for match, end in zip(heads, [*(match.start() for match in heads), len(history)][1:], strict=True):
        path = "" if match[1].strip("/") == own_path.strip("/") else match[1]
        for part in re.split(r"^@@.*\n", history[match.end() : end], flags=re.MULTILINE):
            lines = [*takewhile(lambda line: line[0] in "-+ \\", LINE.findall(part))]
            old, new = ("".join(_with_eol(line[1:]) for line in lines if line[0] in signs) for signs in ("- ", "+ "))
            if old != new:
                yield Hunk(0, old, new, path)


def _may_show(hunk: Hunk, control_tokens: tuple[str, ...]) -> bool:
    both = hunk.path + hunk.old + hunk.new
    return len(both) <= _MAX_HUNK_CHARS and not any(mark in both for mark in control_tokens)


_SEED_CODER = "<[fim-suffix]>{after}<[fim-prefix]><filename>{files}"
_ZETA_2 = _SEED_CODER + "<<<<<<< CURRENT\n{region}=======\n<[fim-middle]>"
_ZETA_2_1 = _SEED_CODER + "<|marker_1|>{region}\n<[fim-middle]>"
_FILENAME = "<filename>"
_HISTORY = "edit_history"


def _write_zeta_2(excerpt: _Excerpt, mark: str, between: str = "\n") -> dict[str, str]:
    """The fields of the template, with the text `between` every two changes."""
    paths = (hunk.path or excerpt.path for hunk in excerpt.hunks)
    events = [f"--- a/{path}\n+++ b/{path}\n{_diff(hunk)}" for path, hunk in zip(paths, excerpt.hunks, strict=True)]
    history = f"{_HISTORY}\n{between.join(events)}\n{_FILENAME}" if events else ""
    return {
        "after": _with_eol(excerpt.lines_below),
        "files": f"{history}{excerpt.path}\n{excerpt.lines_above}",
        "region": excerpt.region(mark),
    }


def _write_zeta_2_1(excerpt: _Excerpt, mark: str) -> dict[str, str]:
    blocks, cursor = cut_blocks(excerpt.current), excerpt.cursor
    index = next(index for index, end in enumerate(accumulate(map(len, blocks))) if cursor <= end)
    cursor -= sum(map(len, blocks[:index]))
    blocks[index] = blocks[index][:cursor] + mark + blocks[index][cursor:]
    return {**_write_zeta_2(excerpt, mark, ""), "region": add_marks(blocks).removeprefix("<|marker_1|>")}


def _parse_zeta_2_1(fields: Mapping[str, str], mark: str) -> _Excerpt:
    prefix, _, suffix = remove_marks(fields["region"]).partition(mark)
    return replace(_parse_zeta_2(fields, mark), current=prefix + suffix, cursor=len(prefix))


def _parse_zeta_2(fields: Mapping[str, str], mark: str) -> _Excerpt:
    *sections, (path, lines_above) = _sections(fields["files"], _FILENAME)
    history = "".join(text for name, text in sections if name == _HISTORY)
    hunks = _parse_diffs(history, r"^--- a/.*\n\+\+\+ b/(.*)\n", path)
    current, cursor = _parse_region(fields["region"], mark)
    return _Excerpt(path, lines_above, current, fields["after"].removeprefix("\n"), 0, cursor, tuple(hunks))


_ZETA = """### Instruction:
You are a code completion assistant and your task is to analyze user edits and then rewrite an excerpt that the user \
provides, suggesting the appropriate edits within the excerpt, taking into account the cursor location.

### User Edits:

{edits}

### User Excerpt:

```{file}<|editable_region_start|>
{region}<|editable_region_end|>
{after}```

### Response:
"""
_START_OF_FILE = "<|start_of_file|>\n"


def _write_zeta(excerpt: _Excerpt, mark: str) -> dict[str, str]:
    edits = (f'User edited "{hunk.path or excerpt.path}":\n```diff\n{_diff(hunk)}```' for hunk in excerpt.hunks)
    is_start = excerpt.first - 1 == excerpt.lines_above.count("\n")
    return {
        "edits": "\n\n".join(edits),
        "file": f"{excerpt.path}\n{_START_OF_FILE if is_start else ''}{excerpt.lines_above}",
        "region": excerpt.region(mark),
        "after": excerpt.lines_below and _with_eol(excerpt.lines_below),
    }


def _parse_zeta(fields: Mapping[str, str], mark: str) -> _Excerpt:
    path, _, lines_above = fields["file"].partition("\n")
    hunks = _parse_diffs(fields["edits"], r'^User edited "?(.*?)"?:\n```diff\n', path)
    current, cursor = _parse_region(fields["region"].removesuffix("\n"), mark)
    return _Excerpt(path, lines_above.removeprefix(_START_OF_FILE), current, fields["after"], 0, cursor, tuple(hunks))


_FILE_SEP = "<|file_sep|>"
_SWEEP = "<|file_sep|>{files}<|file_sep|>original/{original}<|file_sep|>current/{region}<|file_sep|>updated/{begun}"


def _write_sweep(excerpt: _Excerpt, mark: str) -> dict[str, str]:
    last = excerpt.first + excerpt.region().count("\n") - 1
    location = f"{excerpt.path}:{excerpt.first}:{last}"
    text = excerpt.lines_above + excerpt.current + excerpt.lines_below
    diffs = (
        f"{_FILE_SEP}{hunk.path or excerpt.path}.diff\noriginal:\n{_to_lf(hunk.old)}updated:\n{_to_lf(hunk.new)}"
        for hunk in excerpt.hunks
    )
    return {
        "files": f"{excerpt.path}\n{_with_eol(text)}{''.join(diffs)}",
        "original": f"{location}\n{excerpt.region()}",
        "region": f"{location}\n{excerpt.region(mark)}",
        "begun": f"{location}\n{excerpt.region_above_cursor}",
    }


def _parse_sweep(fields: Mapping[str, str], mark: str) -> _Excerpt:
    location, _, region = fields["region"].partition("\n")
    path = re.sub(r":\d+:\d+\Z", "", location)
    current, cursor = _parse_region(region, mark)
    above, below, hunks = "", "", list[Hunk]()
    for name, text in _sections(fields["files"], _FILE_SEP):
        changed = name.removesuffix(".diff")
        if name == path and current in text:
            above, _, below = text.partition(current)
        elif changed != name:
            old, *new = re.split("^updated:\n", text.removeprefix("original:\n"), maxsplit=1, flags=re.MULTILINE)
            hunks += [Hunk(0, old, new_text, "" if changed == path else changed) for new_text in new]
    below = below if current.endswith("\n") else below.removeprefix("\n")
    return _Excerpt(path, above, current, below, 0, cursor, tuple(hunks), fields["begun"].partition("\n")[2])


def _diff(hunk: Hunk) -> str:
    old, new = (LINE.findall(_to_lf(text)) for text in (hunk.old, hunk.new))
    line_number = hunk.line + 1
    head = f"@@ -{line_number},{len(old)} +{line_number},{len(new)} @@\n"
    return head + "".join(f"{mark}{_with_eol(line)}" for mark, lines in (("-", old), ("+", new)) for line in lines)


def _to_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_eol(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


_SEED_CODER_TOKENS = ("<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>")
_SEED_CODER_END = "<[end▁of▁sentence]>"
_FORMATS: dict[EditKind, _PromptFormat] = {
    "zeta-2.1": _PromptFormat(
        15,
        _ZETA_2_1,
        _write_zeta_2_1,
        _parse_zeta_2_1,
        (_SEED_CODER_END,),
        ("<|user_cursor|>", *_SEED_CODER_TOKENS, _SEED_CODER_END, "<|marker_"),
        required_tokens=_SEED_CODER_TOKENS,
        is_numbered=True,
    ),
    "zeta-2": _PromptFormat(
        15,
        _ZETA_2,
        _write_zeta_2,
        _parse_zeta_2,
        (">>>>>>> UPDATED\n", ">>>>>>> UPDATED"),
        ("<|user_cursor|>", *_SEED_CODER_TOKENS, "<<<<<<< CURRENT", ">>>>>>> UPDATED"),
        required_tokens=_SEED_CODER_TOKENS,
    ),
    "zeta": _PromptFormat(
        20,
        _ZETA,
        _write_zeta,
        _parse_zeta,
        ("\n<|editable_region_end|>",),
        ("<|user_cursor_is_here|>", "<|start_of_file|>", "<|editable_region_start|>", "<|editable_region_end|>"),
        opening="<|editable_region_start|>\n",
    ),
    "sweep": _PromptFormat(
        20,
        _SWEEP,
        _write_sweep,
        _parse_sweep,
        ("<|file_sep|>", "<|endoftext|>"),
        ("<|cursor|>", "<|file_sep|>", "<|endoftext|>"),
        required_tokens=("<|file_sep|>", "<|endoftext|>"),
        forces_start=True,
    ),
}

"""The prompts of edit models: each shows the latest changes and asks for the lines around the cursor, rewritten.

Zeta 2.1, 2 and 1: zed-industries/zed's crates zeta_prompt and zeta. Sweep: the card of sweepai/sweep-next-edit-1.5B.
Code that contains a text which structures a prompt would end it, so it is not shown.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate

from inference.messages import EditKind, Hunk, NextEditRequest, ScoredEdit
from inference.models.family import common_end_lengths
from inference.models.numbered_blocks import cut_blocks, marked, rewritten_blocks

MIN_CONFIDENCE = 0.5
"""Below it the model itself finds any other token likelier than the one it wrote, on average. Not measured: recorded
answers have no probabilities.
"""
USUAL_TOKENS, USUAL_PASSES = 2000, 60
"""Of a rewrite: the median of 60 files was 1,600 to 2,450 tokens of prompt, and 170 to 330 of the region, which 40
passes of 8 rows confirm; such a pass takes as long as one and a half of one row.
"""
_MAX_HUNKS, _MAX_HUNK_CHARS = 8, 2_000
"""How many of the latest changes to show, and how many characters of old and new text each may have."""
_AROUND_LINES = 100
"""How much of the file to show before and behind the region."""
_MAX_LINE_CHARS = 2_000
"""A region with a longer line is no code that people write."""
_NAMES: dict[EditKind, re.Pattern[str]] = {
    "sweep": re.compile(r"sweep", re.IGNORECASE),
    "zeta-2.1": re.compile(r"(?<![a-z])zeta[-_ ]?2[-_.]1(?![\d.]*b|\d)", re.IGNORECASE),
    "zeta-2": re.compile(r"(?<![a-z])zeta[-_ ]?2(?![.\d]\d|b)", re.IGNORECASE),
    "zeta": re.compile(r"(?<![a-z])zeta(?![a-z]|[-_ ]?\d(?![\d.]*b))", re.IGNORECASE),
}
LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""With its end: only a line feed ends one."""
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
        """What would change nothing of all that an answer rewrites."""
        if self.blocks:
            first, last, _ = rewritten_blocks(self.blocks, answer)
            return marked(self.blocks[first:last], first + 1)
        return self.opening + _plain(self.current).removeprefix(self.forced)

    def parse_edits(self, answer: str, confidence: float = 1.0) -> tuple[ScoredEdit, ...]:
        """The edits in the model's rewrite; empty if its confidence is below the minimum or nothing changes."""
        new = self.rewritten(answer)
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

    def rewritten(self, answer: str) -> str:
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
        plain = _plain(self.current)
        new = (self.forced + answer).rstrip("\n") + plain[len(plain.rstrip("\n")) :]
        return new.replace("\n", "\r\n") if "\r\n" in self.current else new


@dataclass(frozen=True)
class _Excerpt:
    """What a prompt shows: a region and the lines before and after it, with line feeds alone; the latest changes.

    `cursor` is the cursor's place in the region, and `first` the number of its first line, from 1.
    """

    path: str
    before: str
    now: str
    after: str
    first: int
    cursor: int
    hunks: tuple[Hunk, ...]

    def region(self, mark: str = "") -> str:
        """The region with a mark for the cursor, and a line feed at its end."""
        return _ended(self.now[: self.cursor] + mark + self.now[self.cursor :])

    @property
    def written(self) -> str:
        """The lines above the cursor's."""
        return self.now[: self.now.rfind("\n", 0, self.cursor) + 1]


@dataclass(frozen=True)
class _Kind:
    """A model's prompt: how many lines above and below the cursor's it rewrites, and what ends its answer.

    No text in it may contain the `controls`. The model's vocabulary must have `tokens`.
    """

    lines: int
    write: Callable[[_Excerpt], str]
    ends: tuple[str, ...]
    controls: tuple[str, ...]
    tokens: tuple[str, ...] = ()
    opening: str = ""
    is_begun: bool = False
    """Whether the prompt already repeats the lines above the cursor."""
    is_numbered: bool = False
    """Whether the region is cut into blocks with numbers."""


def _changes(old: bytes, new: bytes) -> list[tuple[int, int]]:
    """The ranges of `new` that differ from `old`, by words; an empty one where text was deleted."""
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    lead, tail = common_end_lengths(old_words, new_words)
    old_words, changed_words = old_words[lead : len(old_words) - tail], new_words[lead : len(new_words) - tail]
    offsets = list(accumulate(map(len, changed_words), initial=sum(map(len, new_words[:lead]))))
    opcodes = SequenceMatcher(None, old_words, changed_words, autojunk=False).get_opcodes()
    return [(offsets[k], offsets[m]) for tag, _, _, k, m in opcodes if tag != "equal"]


def guess_kind(kind: EditKind, name: str) -> EditKind | None:
    """The kind of the model with that name, unless it is known; None if the name does not tell."""
    if kind != "auto":
        return kind
    return next((named for named, pattern in _NAMES.items() if pattern.search(name)), None)


def kind_advice(model: str) -> str:
    """What to tell a user of a model whose name tells no kind."""
    return (
        f"{model} is not the name of a Zeta 2.1, Zeta 2, Zeta or Sweep; choose one of these, or set nextEdit.kind to "
        "the prompt it was trained with: zeta-2.1, zeta-2, zeta or sweep"
    )


def usual_rewrite_s(pass_ms: float, prompt_token_ms: float) -> float:
    """How long a usual rewrite takes with a pass of so many milliseconds, and a prompt's token of so many."""
    return (USUAL_PASSES * pass_ms + USUAL_TOKENS * prompt_token_ms) / 1000


def missing_token(kind: EditKind, knows: Callable[[str], bool]) -> str:
    """A token of a kind's prompt that a vocabulary lacks, so that the model is of another kind; "" if none."""
    return next((token for token in _KINDS[kind].tokens if not knows(token)), "")


def edit_prompt_for(kind: EditKind, request: NextEditRequest) -> EditPrompt | None:
    """The prompt for the lines around the request's cursor; None if they cannot be shown."""
    how = _KINDS[kind]
    cursor = min(request.cursor or 0, len(request.text))
    lines = LINE.findall(request.text)
    row = request.text.count("\n", 0, cursor)
    first = max(0, row - how.lines)
    end = min(len(lines), row + how.lines + 1)
    now = "".join(lines[first:end])
    start = sum(map(len, lines[:first]))
    lines_above = "".join(lines[max(0, first - _AROUND_LINES) : first])
    lines_below = "".join(lines[end : end + _AROUND_LINES])
    is_code = now.strip() and max(map(len, lines[first:end])) <= _MAX_LINE_CHARS
    if not is_code or any(mark in lines_above + now + lines_below + request.path for mark in how.controls):
        return None
    excerpt = _Excerpt(
        path=request.path,
        before=_plain(lines_above),
        now=_plain(now),
        after=_plain(lines_below),
        first=first + 1,
        cursor=len(_plain(request.text[start:cursor])),
        hunks=tuple(hunk for hunk in request.hunks if _may_show(hunk, how.controls))[-_MAX_HUNKS:],
    )
    existing = excerpt.written if how.is_begun else ""
    blocks = cut_blocks(excerpt.now) if how.is_numbered else ()
    return EditPrompt(how.write(excerpt), start, now, existing, how.ends, how.controls, how.opening, tuple(blocks))


def _may_show(hunk: Hunk, controls: tuple[str, ...]) -> bool:
    both = hunk.path + hunk.old + hunk.new
    return len(both) <= _MAX_HUNK_CHARS and not any(mark in both for mark in controls)


def _zeta_2(excerpt: _Excerpt) -> str:
    return _seed_coder(excerpt, f"<<<<<<< CURRENT\n{excerpt.region(_CURSOR)}=======", "\n")


def _zeta_2_1(excerpt: _Excerpt) -> str:
    blocks, cursor = cut_blocks(excerpt.now), excerpt.cursor
    here = next(index for index, end in enumerate(accumulate(map(len, blocks))) if cursor <= end)
    cursor -= sum(map(len, blocks[:here]))
    blocks[here] = blocks[here][:cursor] + _CURSOR + blocks[here][cursor:]
    return _seed_coder(excerpt, marked(blocks), "")


def _seed_coder(excerpt: _Excerpt, region: str, between: str) -> str:
    """A prompt of Seed-Coder's tokens, with a text `between` two changes."""
    paths = (hunk.path or excerpt.path for hunk in excerpt.hunks)
    events = [f"--- a/{path}\n+++ b/{path}\n{_diff(hunk)}" for path, hunk in zip(paths, excerpt.hunks, strict=True)]
    history = f"<filename>edit_history\n{between.join(events)}\n" if events else ""
    return (
        f"<[fim-suffix]>{_ended(excerpt.after)}<[fim-prefix]>{history}<filename>{excerpt.path}\n{excerpt.before}{region}\n"
        "<[fim-middle]>"
    )


_ZETA = """### Instruction:
You are a code completion assistant and your task is to analyze user edits and then rewrite an excerpt that the user \
provides, suggesting the appropriate edits within the excerpt, taking into account the cursor location.

### User Edits:

{edits}

### User Excerpt:

```{path}
{before}<|editable_region_start|>
{region}<|editable_region_end|>
{after}```

### Response:
"""


def _zeta(excerpt: _Excerpt) -> str:
    edits = (f'User edited "{hunk.path or excerpt.path}":\n```diff\n{_diff(hunk)}```' for hunk in excerpt.hunks)
    is_start = excerpt.first - 1 == excerpt.before.count("\n")
    return _ZETA.format(
        edits="\n\n".join(edits),
        path=excerpt.path,
        before=("<|start_of_file|>\n" if is_start else "") + excerpt.before,
        region=excerpt.region("<|user_cursor_is_here|>"),
        after=excerpt.after and _ended(excerpt.after),
    )


def _sweep(excerpt: _Excerpt) -> str:
    last = excerpt.first + excerpt.region().count("\n") - 1
    location = f"{excerpt.path}:{excerpt.first}:{last}"
    diffs = (
        f"<|file_sep|>{hunk.path or excerpt.path}.diff\noriginal:\n{_plain(hunk.old)}updated:\n{_plain(hunk.new)}"
        for hunk in excerpt.hunks
    )
    return (
        f"<|file_sep|>{excerpt.path}\n{_ended(excerpt.before + excerpt.now + excerpt.after)}{''.join(diffs)}"
        f"<|file_sep|>original/{location}\n{excerpt.region()}<|file_sep|>current/{location}\n{excerpt.region('<|cursor|>')}"
        f"<|file_sep|>updated/{location}\n{excerpt.written}"
    )


def _diff(hunk: Hunk) -> str:
    old, new = (LINE.findall(_plain(text)) for text in (hunk.old, hunk.new))
    line_number = hunk.line + 1
    head = f"@@ -{line_number},{len(old)} +{line_number},{len(new)} @@\n"
    return head + "".join(f"{mark}{_ended(line)}" for mark, lines in (("-", old), ("+", new)) for line in lines)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


_CURSOR = "<|user_cursor|>"
_SEED_CODER = ("<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>")
_SEED_CODER_END = "<[end▁of▁sentence]>"
_KINDS: dict[EditKind, _Kind] = {
    "zeta-2.1": _Kind(
        15,
        _zeta_2_1,
        (_SEED_CODER_END,),
        (*_SEED_CODER, _SEED_CODER_END, "<|marker_", _CURSOR),
        tokens=_SEED_CODER,
        is_numbered=True,
    ),
    "zeta-2": _Kind(
        15,
        _zeta_2,
        (">>>>>>> UPDATED\n", ">>>>>>> UPDATED"),
        (*_SEED_CODER, "<<<<<<< CURRENT", ">>>>>>> UPDATED", _CURSOR),
        tokens=_SEED_CODER,
    ),
    "zeta": _Kind(
        20,
        _zeta,
        ("\n<|editable_region_end|>",),
        ("<|start_of_file|>", "<|editable_region_start|>", "<|editable_region_end|>", "<|user_cursor_is_here|>"),
        opening="<|editable_region_start|>\n",
    ),
    "sweep": _Kind(
        20,
        _sweep,
        ("<|file_sep|>", "<|endoftext|>"),
        ("<|cursor|>", "<|file_sep|>", "<|endoftext|>"),
        tokens=("<|file_sep|>", "<|endoftext|>"),
        is_begun=True,
    ),
}

"""Scores the edits that the server proposes after a change, and one that it writes itself, with a causal model.

The prompt is a diff of the last changes, a format that code models know well; ours omits line numbers. A proposal's
score, how much likelier its lines come next than the same lines unchanged, must reach a margin with its likeness.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import closing
from difflib import SequenceMatcher
from itertools import groupby

from msgspec.structs import replace

from inference.deadline import Deadline
from inference.engine.errors import RequestError
from inference.engine.loaded_model import LoadedModel
from inference.engine.next_edit.speculative_decoding import NextEditEvent, NextEditRun
from inference.messages import (
    MAX_PROPOSALS,
    MAX_PROPOSED_CHARACTERS,
    Done,
    Hunk,
    NextEditRequest,
    NextEdits,
    Outcome,
    ScoredEdit,
)
from inference.models.edit_prompts import LINE
from inference.models.family import FimPrefixHandle

MARGIN_NATS, LIKENESS_NATS = 16.0, 10.0
"""How much likelier a change must be than none, counting a bonus for likeness to the changed lines.

On the benchmark's tuning half, where the syntax finds nothing, it passes 28 exact edits, 6 others and 1 in a quiet
case; 15 would pass 31, 7 and 3.
"""

_MAX_HUNKS = 3
_LINES_ABOVE_EDIT = 5
_LINES_ABOVE_HUNK = 2
_MAX_CHARS = 900
"""How many lines the diff has above an edit and above a change, and how many characters of changes."""

_WRITTEN_AT_CURSOR, _WRITTEN_ELSEWHERE = 1.3, 1.15
"""Count as the likeness of what the model writes itself, which so must be 20 times as likely as no change at the cursor
(3 nats), and 90 times elsewhere (4.5 nats).

Of 28 cursors away from the last change, all from the tuning half, 6 of 8 right edits of the 1.5B passed that, and none
of 3 wrong ones. Elsewhere, in 68 cases of that half, 2 right edits and a wrong one passed; 3 nats would pass 3, 3 and 2
in quiet cases.
"""
_INSERTED = re.compile(r"(?:\+[^\n]*\n)*")
"""The lines that a diff inserts."""
_WORD_OR_PUNCTUATION = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_CHANGES_ALONE = 3
"""Each is scored in a pass of its own."""
_INSERTION_ENDS = ("\n ", "\n-", "\n@", "\n\n", "\n\\")


class NextEditJudgeRun(NextEditRun):
    """The work on one request, as a generator: each step does at most one forward pass.

    It yields `NextEdits`, of whole lines, then Done. None is a step with nothing to report. Closing it stops the work.
    """

    def __init__(
        self, model: LoadedModel, request: NextEditRequest, deadline: Deadline | None, margin: float = MARGIN_NATS
    ) -> None:
        """At the `deadline` the answer is what was judged by then.

        Raises RequestError if a proposal makes no sense.
        """
        super().__init__(model, deadline)
        max_chars = max((max(edit.end - edit.start, len(edit.text)) for edit in request.proposals), default=0)
        ranges = [*request.regions, *((edit.start, edit.end) for edit in request.proposals)]
        are_inside = all(0 <= start < end <= max(1, len(request.text)) for start, end in ranges)
        if len(request.proposals) > MAX_PROPOSALS or max_chars > MAX_PROPOSED_CHARACTERS or not are_inside:
            limits = f"at most {MAX_PROPOSALS}, of {MAX_PROPOSED_CHARACTERS} characters, none empty"
            raise RequestError(f"the proposals are not edits of the text: {limits}")
        self._request = request
        self._margin = margin

    def _run(self) -> Generator[NextEditEvent | None, None, None]:
        traits = self._model.traits
        edits = (yield from self._judge()) if traits.is_fim and traits.can_score else []
        yield NextEdits(self._request.id, tuple(sorted(edits, key=lambda edit: -edit.score)))
        outcome = Outcome.DEADLINE if self._is_late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _judge(self) -> Generator[None, None, list[ScoredEdit]]:
        """Returns the edits worth offering, of the ranges that there is time for."""
        offers = list[ScoredEdit]()
        text = self._request.text
        vocabulary = self._model.vocabulary
        path, hunks = self._request.path, self._request.hunks
        ranges = {
            lines: list(edits) for lines, edits in groupby(self._request.proposals, lambda edit: (edit.start, edit.end))
        }
        for region in self._request.regions:
            ranges.setdefault(region, [])
        for (start, end), edits in ranges.items():
            if self._is_late():
                break
            current = text[start:end]
            first, last = text.count("\n", 0, start), text.count("\n", 0, end)
            elsewhere = [hunk for hunk in hunks if hunk.path or not first <= hunk.line < max(last, first + 1)]
            diff = _changes(path, text, elsewhere), _diff_removing(current, text[:start])
            prompt_ids = [id_ for part in diff for id_ in vocabulary.encode(part)]
            with closing(self._model.fim_adapter.open_prefix(prompt_ids)) as context:
                if not (yield from self._prefill_context(context, prompt_ids)):
                    break
                if (start, end) in self._request.regions:
                    edits = [*(yield from self._written(context, start, current)), *edits]
                texts = [
                    vocabulary.encode(_diff_inserting(new, text[end:]))
                    for new in (current, *(edit.text for edit in edits))
                ]
                logprobs = list[float]()
                for ids in texts:  # each takes a pass, and others' requests have their turns between
                    if self._is_late():
                        break
                    logprobs.append(float(context.log_probabilities([ids])[0].sum()))
                    self._counters.steps += 1
                    yield None
            if len(logprobs) < 2:
                continue
            unchanged, *changed = logprobs
            likeliest = changed.index(max(changed))
            score = changed[likeliest] - unchanged + LIKENESS_NATS * edits[likeliest].score
            if score >= self._margin:
                offers.append(replace(edits[likeliest], score=score))
        return offers

    def _written(self, context: FimPrefixHandle, start: int, current: str) -> Generator[None, None, list[ScoredEdit]]:
        """What the model would insert for `current`, whole and with each change alone: greedy text may add too much."""
        draft = self._model.vocabulary.encode(_marked("+", current))
        tokens = yield from self._decode(context, draft, _INSERTION_ENDS)
        written = _INSERTED.match(self.output)
        text = re.sub(r"(?m)^\+", "", written[0]) if written and tokens else current
        texts = (text, *changes_alone(current, text)) if text.strip() and text != current else ()
        end = start + len(current)  # the cursor may be behind the text's last character
        is_at_cursor = self._request.cursor in range(start, end + (end == len(self._request.text)))
        score = _WRITTEN_AT_CURSOR if is_at_cursor else _WRITTEN_ELSEWHERE
        return [ScoredEdit(start, end, new, score) for new in texts]


def changes_alone(old: str, new: str) -> list[str]:
    """`old` with each of the changes that lead to `new`, alone; none if there is one change, or many."""
    words, new_words = _WORD_OR_PUNCTUATION.findall(old), _WORD_OR_PUNCTUATION.findall(new)
    opcodes = SequenceMatcher(None, words, new_words, autojunk=False).get_opcodes()
    changes = [range_ for tag, *range_ in opcodes if tag != "equal"]
    texts = ["".join([*words[:i], *new_words[k:m], *words[j:]]) for i, j, k, m in changes]
    return texts if 1 < len(texts) <= _MAX_CHANGES_ALONE else []


def _changes(path: str, text: str, hunks: Sequence[Hunk]) -> str:
    """The head of a diff, and the latest of the changes that led to `text`."""
    lines = LINE.findall(text)
    diff = ""
    for hunk in hunks[-_MAX_HUNKS:]:
        if hunk.path:
            diff += "@@\n" + _marked("-", hunk.old) + _marked("+", hunk.new)
            continue
        end = hunk.line + hunk.new.count("\n")
        above = "".join(lines[max(0, hunk.line - _LINES_ABOVE_HUNK) : hunk.line])
        below = "".join(lines[end : end + 1])
        diff += "@@\n" + _marked(" ", above) + _marked("-", hunk.old) + _marked("+", hunk.new) + _marked(" ", below)
    return f"--- a/{path}\n+++ b/{path}\n{diff[-_MAX_CHARS:]}"


def _diff_removing(current: str, above: str) -> str:
    """The start of one more change: removes `current`, the text after `above`."""
    return (
        "@@\n" + _marked(" ", "".join(LINE.findall(above[-_MAX_CHARS:])[-_LINES_ABOVE_EDIT:])) + _marked("-", current)
    )


def _diff_inserting(new: str, below: str) -> str:
    """The rest of that change: inserts `new` before `below`."""
    return _marked("+", new) + " " + below[:_MAX_CHARS].partition("\n")[0] + "\n"


def _marked(mark: str, block: str) -> str:
    return "".join(mark + line for line in LINE.findall(block))

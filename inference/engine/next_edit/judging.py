"""Judges the edits proposed after a change with a causal model: which of them come next?

Each is judged in a diff that begins with the last changes: is a change of these lines likelier to come next than the
lines unchanged? Likelihood and likeness together must reach a margin. A unified diff is a format that code models know
well: it ends where a line's new text would begin. Ours omits line numbers.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import groupby

from msgspec.structs import replace

from inference.deadline import Deadline
from inference.engine.errors import RequestError
from inference.engine.loaded_model import LoadedModel
from inference.engine.work import Work
from inference.messages import (
    MAX_PROPOSALS,
    MAX_PROPOSED_CHARACTERS,
    Done,
    Edit,
    Hunk,
    NextEditRequest,
    NextEdits,
    Outcome,
)
from inference.models.edit_prompts import LINE

MARGIN, LIKENESS_NATS = 16.0, 10.0
"""How much likelier a change must be than none, in nats, counting a bonus for similarity to the changed place.

On the benchmark's tuning half, where the syntax finds nothing, it passes 28 exact edits, 6 others and 1 in a quiet
case; 15 would pass 31, 7 and 3.
"""

_MOST_HUNKS = 3
"""How many of the latest changes to show."""
_ABOVE = 5
_ABOVE_HUNK = 2
_MOST_CHARACTERS = 900
"""How many lines the diff has before a place and before a change, and how many characters of changes."""

_Event = NextEdits | Done


class NextEditing(Work[_Event]):
    """The work on one request, as a generator: each step does at most one forward pass.

    It yields `NextEdits`, of whole lines, then Done. None is a step with nothing to report. Closing it stops the work.
    """

    def __init__(
        self, model: LoadedModel, request: NextEditRequest, deadline: Deadline | None, margin: float = MARGIN
    ) -> None:
        """At the `deadline` the answer is whatever was found by then.

        Raises RequestError if a proposal makes no sense.
        """
        super().__init__(deadline)
        longest = max((max(edit.end - edit.start, len(edit.text)) for edit in request.proposals), default=0)
        are_inside = all(0 <= edit.start < edit.end <= len(request.text) for edit in request.proposals)
        if len(request.proposals) > MAX_PROPOSALS or longest > MAX_PROPOSED_CHARACTERS or not are_inside:
            limits = f"at most {MAX_PROPOSALS}, of {MAX_PROPOSED_CHARACTERS} characters, none empty"
            raise RequestError(f"the proposals are not edits of the text: {limits}")
        self._model = model
        self._request = request
        self._margin = margin

    def _work(self) -> Generator[_Event | None, None, None]:
        traits = self._model.traits
        found = (yield from self._judged()) if traits.fills_middle and traits.can_score else []
        yield NextEdits(self._request.id, tuple(sorted(found, key=lambda edit: -edit.score)))
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _judged(self) -> Generator[None, None, list[Edit]]:
        """The edits worth offering of the places that there is time for."""
        found = list[Edit]()
        text = self._request.text
        vocabulary = self._model.vocabulary
        begun = vocabulary.encode(_changes(self._request.path, text, self._request.hunks))
        for (start, end), proposed in groupby(self._request.proposals, lambda edit: (edit.start, edit.end)):
            if self._late():
                break
            edits = list(proposed)
            now = text[start:end]
            ids = [*begun, *vocabulary.encode(_before(text[:start], now))]
            texts = [vocabulary.encode(_after(new, text[end:])) for new in (now, *(edit.text for edit in edits))]
            with closing(self._model.family.open(ids)) as context:
                if not (yield from self._encode(context, ids)):
                    break
                likely = list[float]()
                for each in texts:  # each takes a pass, and others' requests have their turns between
                    if self._late():
                        return found
                    likely.append(float(context.log_probabilities([each])[0].sum()))
                    self._counters.steps += 1
                    yield None
            same, *changed = likely
            likeliest = changed.index(max(changed))
            score = changed[likeliest] - same + LIKENESS_NATS * edits[likeliest].score
            if score >= self._margin:
                found.append(replace(edits[likeliest], score=score))
        return found


def _changes(path: str, text: str, hunks: Sequence[Hunk]) -> str:
    """The head of a diff, and the latest of the changes that led to `text`."""
    lines = LINE.findall(text)
    shown = ""
    for hunk in hunks[-_MOST_HUNKS:]:
        end = hunk.line + hunk.new.count("\n")
        above = "".join(lines[max(0, hunk.line - _ABOVE_HUNK) : hunk.line])
        below = "".join(lines[end : end + 1])
        shown += "@@\n" + _each(" ", above) + _each("-", hunk.old) + _each("+", hunk.new) + _each(" ", below)
    return f"--- a/{path}\n+++ b/{path}\n{shown[-_MOST_CHARACTERS:]}"


def _before(above: str, now: str) -> str:
    """The start of one more change: removes `now`, the text behind `above`."""
    return "@@\n" + _each(" ", "".join(LINE.findall(above[-_MOST_CHARACTERS:])[-_ABOVE:])) + _each("-", now)


def _after(new: str, below: str) -> str:
    """The rest of that change: inserts `new` before `below`."""
    return _each("+", new) + " " + below[:_MOST_CHARACTERS].partition("\n")[0] + "\n"


def _each(mark: str, block: str) -> str:
    return "".join(mark + line for line in LINE.findall(block))

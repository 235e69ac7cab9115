"""Finds the places that no longer fit after a change, and their replacements, with a causal model.

Judges each proposal in a diff that begins with the last changes: is a change of these lines likelier to come next than
the lines unchanged? Likelihood and similarity together must reach a margin. A unified diff is a format that code models
know well: it ends where a line's new text would begin. Ours omits line numbers.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from inference.engine.loaded_model import LoadedModel
from inference.engine.next_edit.proposals import Proposal, lines_of, proposals
from inference.engine.work import Work
from inference.messages import Done, Edit, Hunk, NextEditRequest, NextEdits, Outcome

MARGIN, LIKENESS_NATS = 16.0, 10.0
"""How much likelier a change must be than none, in nats, counting a bonus for similarity to the changed place.

The smallest whole number with which no quiet case of the benchmark's tuning half gets an offer, after its first change
and where the syntax finds nothing. It passes 18 exact offers and 3 others; 13 would pass 34, 6, and 4 in quiet cases.
"""

_MOST_HUNKS, _MOST_PLACES, _MOST_TEXTS = 3, 6, 4
"""How many of the latest changes to use, how many places to judge (most alike first), and texts for each."""
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
        self, model: LoadedModel, request: NextEditRequest, deadline: float | None, margin: float = MARGIN
    ) -> None:
        """`deadline` is in seconds of `time.monotonic()`: the answer is whatever was found by then."""
        super().__init__(deadline)
        self._model = model
        self._request = request
        self._margin = margin
        self._lines = lines_of(request.text)

    def _work(self) -> Generator[_Event | None, None, None]:
        found: list[Edit] = []
        traits, hunks = self._model.traits, self._request.hunks
        if traits.fills_middle and traits.can_score and hunks:
            yield from self._judge(found)
        found.sort(key=lambda edit: -edit.score)
        yield NextEdits(self._request.id, tuple(found))
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _judge(self, found: list[Edit]) -> Iterator[None]:
        """Appends to `found` the edits worth offering, while there is time."""
        lines, vocabulary = self._lines, self._model.vocabulary
        like = list[Proposal]()
        for hunk in reversed(self._request.hunks[-_MOST_HUNKS:]):
            like += proposals(lines, hunk)
            yield None
        begun = vocabulary.encode(_changes(self._request.path, lines, self._request.hunks))
        for place in places(like, self._request.hunks):
            if self._late():
                break
            line, end, now = place[0].line, place[0].end, place[0].now
            ids = [*begun, *vocabulary.encode(_before(lines, line, now))]
            texts = [vocabulary.encode(_after(lines, end, text)) for text in (now, *(one.text for one in place))]
            with closing(self._model.family.open(ids)) as context:
                if not (yield from self._encode(context, ids)):
                    break
                same, *changed = (float(each.sum()) for each in context.log_probabilities(texts))
            self._counters.steps += 1
            yield None
            likeliest = changed.index(max(changed))
            score = changed[likeliest] - same + LIKENESS_NATS * place[likeliest].likeness
            if score >= self._margin:
                start = sum(map(len, lines[:line]))
                found.append(Edit(start, start + len(now), place[likeliest].text, score))


def places(found: Sequence[Proposal], hunks: Sequence[Hunk]) -> list[list[Proposal]]:
    """The places to judge, most alike first, with the best proposals for each, but not lines that have changed."""
    taken = {line for hunk in hunks for line in range(hunk.line, hunk.line + hunk.new.count("\n"))}
    kept: dict[tuple[int, int], dict[str, Proposal]] = {}
    for one in sorted(found, key=lambda one: -one.likeness):
        if taken.isdisjoint(range(one.line, one.end)):
            kept.setdefault((one.line, one.end), {}).setdefault(one.text, one)
    return [[*texts.values()][:_MOST_TEXTS] for texts in [*kept.values()][:_MOST_PLACES]]


def _changes(path: str, lines: Sequence[str], hunks: Sequence[Hunk]) -> str:
    """The head of a diff, and the latest of the changes that led to `lines`."""
    shown = ""
    for hunk in hunks[-_MOST_HUNKS:]:
        end = hunk.line + hunk.new.count("\n")
        above = "".join(lines[max(0, hunk.line - _ABOVE_HUNK) : hunk.line])
        below = "".join(lines[end : end + 1])
        shown += "@@\n" + _each(" ", above) + _each("-", hunk.old) + _each("+", hunk.new) + _each(" ", below)
    return f"--- a/{path}\n+++ b/{path}\n{shown[-_MOST_CHARACTERS:]}"


def _before(lines: Sequence[str], line: int, now: str) -> str:
    """The start of one more change: removes `now`, the text from a line on."""
    return "@@\n" + _each(" ", "".join(lines[max(0, line - _ABOVE) : line])) + _each("-", now)


def _after(lines: Sequence[str], end: int, new: str) -> str:
    """The rest of that change: inserts `new` before line `end`."""
    below = lines[end] if end < len(lines) else "\n"
    return _each("+", new) + " " + below


def _each(mark: str, block: str) -> str:
    return "".join(mark + line for line in lines_of(block))

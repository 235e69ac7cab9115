"""The fill pipeline: from holes to a request, and from the answer to texts that fit, never outside the holes."""

import asyncio
import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from msgspec.structs import replace

from inference.deadline import Deadline
from inference.messages import FilledHoles, Hole, HoleKind, InfillRequest, Outcome, PinnedText, Snippet, Stats
from lsp_server import holes
from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import file_name
from lsp_server.fill import postprocess
from lsp_server.fill.postprocess import (
    MAX_PARSED_HOLES,
    EnclosingSyntax,
    count_unfilled,
    current_hole_texts,
    postprocess_all,
)
from lsp_server.settings.schema import Settings
from lsp_server.syntax.languages import has_language_hint, name_comment
from lsp_server.syntax.lines import is_blank, newlines_for_lone_cr
from lsp_server.syntax.view import SyntaxView
from lsp_server.worker import OnDraft, WorkerClient
from lsp_server.worker.client import ANSWER_GRACE_S

_FIT_SHARE = 0.1
"""Reserve at most this share of the deadline for postprocessing."""
_FIT_TEXT_MS = 20
"""Reserve this much per hole and candidate."""
_MIN_FIT_MS = 100
"""Postprocess even a late answer for this long."""
_LATE_SHARE = 0.25
"""An automatic request reserves this share of its time for a late answer, at most `ANSWER_GRACE_S`."""
_MORE_CANDIDATES = 8
"""Ask for this many if none of the first answers fits."""
TOO_LATE_MESSAGE = "no answer within {:.0f} ms; try again, or raise deadlineMs.{}"
ASK = 'ask for it ("Infill: Fill at Cursor" in VS Code, :Infill fill in Neovim, elsewhere write ??? and fill it)'
UNSURE_MESSAGE = f"the model is not sure enough of its first words; change the setting suggestions, or {ASK}"
MIN_PROB_BY_SETTING = {"calm": 0.7, "balanced": 0.47, "eager": 0.3}
"""By the setting `suggestions`: an automatic suggestion ends before its first token less likely than this."""
CUT_OFF_MESSAGE = (
    "the partner's answer was cut off or empty, and would have lost the current text; raise deadlineMs.invoked, "
    "or select less"
)
NOTHING_TO_CHANGE_MESSAGE = "nothing to change: the model would write what is already there"
UNKNOWN_LANGUAGE_MESSAGE = (
    "neither a name, nor a language, nor text tells what kind of file this is; choose its language, or save it"
)
EMPTY_FILE_MESSAGE = f"the file is empty, and no comment says what kind of file it is; begin it, or {ASK}"
NOTHING_FITS_MESSAGE = "the model found nothing that fits here"
DROP_REASONS_MESSAGE = "; what it wrote {}"
UNFILLED_MESSAGE = "{} of {} holes were left unchanged: the model found nothing that fits, or ran out of time"


@dataclass(frozen=True)
class FillBudget:
    """The cost limit of a fill. The deadline includes loading the model.

    Without `max_steps` the checkpoint's own limit applies, without `max_tokens` that of the hole's kind. `may_retry`:
    requests more candidates if none fits. A text ends before its first token less likely than `min_prob`. The other
    fields are as in `InfillRequest`.
    """

    candidates: int
    deadline: Deadline
    max_steps: int | None
    max_tokens: int = 0
    may_retry: bool = False
    quick: bool = False
    reads_ahead: bool = False
    endpoint_client: str = ""
    min_prob: float = 0.0

    @classmethod
    def from_settings(cls, settings: Settings, *, invoked: bool) -> "FillBudget":
        """A larger budget for explicit requests than for automatic ones."""
        if invoked:
            deadline = Deadline(settings.deadline_ms.invoked)
            return cls(settings.candidates.invoked, deadline, settings.max_steps, may_retry=True)
        deadline = Deadline(settings.deadline_ms.automatic)
        return cls(1, deadline, settings.max_steps, quick=True, min_prob=MIN_PROB_BY_SETTING[settings.suggestions])

    def model_deadline_ms(self, num_texts: int) -> int:
        """The part of the remaining time for the model: a reserve is for postprocessing `num_texts`, and for delays."""
        remaining_ms = max(self.deadline.remaining_ms, 1)
        fit_ms = min(remaining_ms * _FIT_SHARE, num_texts * _FIT_TEXT_MS)
        late_ms = min(remaining_ms * _LATE_SHARE, ANSWER_GRACE_S * 1000) if self.quick else 0.0
        return max(int(remaining_ms - fit_ms - late_ms), 1)

    def restarted(self) -> "FillBudget":
        return dataclasses.replace(self, deadline=Deadline(self.deadline.timeout_ms))


@dataclass(frozen=True)
class FillOptions:
    """How much noise to add to the current text (1: replace all of it) or to `drafts`, and instructions for the fills.

    `only_whole`: discard an answer that was cut off, since it would lose the rest of the text it replaces.
    """

    strength: float = 1.0
    instruction: str = ""
    seed: int | None = None
    drafts: tuple[str, ...] | None = None
    only_whole: bool = False


DEFAULT_OPTIONS = FillOptions()


@dataclass(frozen=True)
class FillResult:
    """The candidates, best first, with a text for every span.

    `is_late`: the deadline ended the request. `is_unchanged`: the model returned the current text. `was_cut`: a whole
    answer was required and none came. `drops` counts the rejected texts. `stats` are the costs. `reason` explains why
    there was no request, or why it failed.
    """

    candidates: Sequence[FilledHoles]
    is_late: bool
    is_unchanged: bool = False
    was_cut: bool = False
    drops: Mapping[postprocess.DropReason, int] = field(default_factory=dict)
    stats: Stats = field(default_factory=Stats)
    reason: str = ""

    def empty_reason(self, budget: FillBudget) -> str:
        """Tells the user why there is nothing to show."""
        if self.reason:
            return self.reason
        if postprocess.DropReason.UNSURE in self.drops:
            return UNSURE_MESSAGE
        if self.was_cut:
            return CUT_OFF_MESSAGE
        if self.is_late:
            return TOO_LATE_MESSAGE.format(budget.deadline.timeout_ms, "automatic" if budget.quick else "invoked")
        if self.is_unchanged:
            return NOTHING_TO_CHANGE_MESSAGE
        return NOTHING_FITS_MESSAGE + (
            DROP_REASONS_MESSAGE.format(postprocess.describe_drops(self.drops)) if self.drops else ""
        )


async def fill(
    worker: WorkerClient,
    snapshot: Snapshot,
    spans: Sequence[holes.HoleSpan],
    budget: FillBudget,
    *,
    options: FillOptions = DEFAULT_OPTIONS,
    on_draft: OnDraft | None = None,
    context: tuple[Snippet, ...] = (),
    marker: str = "",
) -> FillResult:
    """Fills all `spans` together. Raises WorkerError. Cancelling this cancels the request in the worker.

    The model sees no `marker` outside the holes, and a fill adds none. It sees the file's name but not its path.
    """
    if budget.quick and not context and (reason := _unknown_language_reason(snapshot)):
        return FillResult([], is_late=False, reason=reason)
    request = build_request(snapshot, spans, budget, options, context, marker)
    request = replace(request, drafts=on_draft is not None)
    asking = partial(
        _request_fills, worker, snapshot, spans, budget, on_draft=on_draft, only_whole=options.only_whole, marker=marker
    )
    result = await asking(request)
    is_useless = not (result.candidates or result.is_late) and options.strength >= 1
    if not (is_useless and budget.may_retry and budget.candidates < _MORE_CANDIDATES and not budget.deadline.is_past):
        return result
    retry = await asking(replace(request, candidates=_MORE_CANDIDATES))
    drops = retry.drops or result.drops
    is_unchanged = retry.is_unchanged or result.is_unchanged
    return dataclasses.replace(retry, is_late=retry.is_late and not drops, is_unchanged=is_unchanged, drops=drops)


def build_request(
    snapshot: Snapshot,
    spans: Sequence[holes.HoleSpan],
    budget: FillBudget,
    options: FillOptions = DEFAULT_OPTIONS,
    context: tuple[Snippet, ...] = (),
    marker: str = "",
) -> InfillRequest:
    """The request to fill `spans`, without an id and a deadline."""
    segments = holes.build_segments(
        snapshot.text,
        spans,
        snapshot.text_before,
        snapshot.text_after,
        marker=marker,
        strength=options.strength,
        drafts=options.drafts,
        max_tokens=budget.max_tokens,
    )
    segments = _add_syntax(segments, snapshot, spans, marker)
    return InfillRequest(
        id="",
        segments=tuple(_normalise_segment(segment, snapshot.text, quick=budget.quick) for segment in segments),
        language=snapshot.language_id,
        path=file_name(snapshot.uri),
        name_comment=name_comment(snapshot.language_id, file_name(snapshot.uri)),
        context=tuple(replace(snippet, text=holes.replace_markers(snippet.text, marker)) for snippet in context),
        candidates=budget.candidates,
        max_steps=budget.max_steps,
        quick=budget.quick,
        min_prob=budget.min_prob,
        reads_ahead=budget.reads_ahead,
        endpoint_client=budget.endpoint_client,
        instruction=options.instruction,
        seed=options.seed,
    )


def _unknown_language_reason(snapshot: Snapshot) -> str:
    """Explains why the model cannot know the language: no file name, no language id, at most one word of text. Empty if
    it can. Where no comment can name the file, as in JSON, only some families have another way.
    """
    name, texts = file_name(snapshot.uri), (snapshot.text_before, snapshot.text, snapshot.text_after)
    if has_language_hint(snapshot.language_id, name):
        is_told = name_comment(snapshot.language_id, name) or not all(map(is_blank, texts))
        return "" if is_told else EMPTY_FILE_MESSAGE
    words = (word for text in texts for word in re.finditer(r"\w+", text))
    return "" if len([*islice(words, 2)]) == 2 else UNKNOWN_LANGUAGE_MESSAGE  # the text may be long


def _normalise_segment(segment: PinnedText | Hole, document: str, *, quick: bool) -> PinnedText | Hole:
    text = newlines_for_lone_cr(segment.text, document)
    if isinstance(segment, PinnedText):
        return replace(segment, text=text)
    starts_with = newlines_for_lone_cr(segment.starts_with, document)
    may_be_empty = quick and segment.kind is not HoleKind.BODY  # a block that is missing
    return replace(segment, text=text, starts_with=starts_with, may_be_empty=may_be_empty)


def _add_syntax(
    segments: tuple[PinnedText | Hole, ...], snapshot: Snapshot, spans: Sequence[holes.HoleSpan], marker: str
) -> tuple[PinnedText | Hole, ...]:
    """Adds to the holes where the syntax tree lets them end, unless there are many or markers break the parse."""
    if len(spans) > MAX_PARSED_HOLES or (marker and marker in snapshot.text):
        return segments
    view = SyntaxView.from_source(snapshot)
    syntax = (EnclosingSyntax.at_offset(view, span.start) for span in spans)
    return tuple(next(syntax).add_to(part) if isinstance(part, Hole) else part for part in segments)


async def _request_fills(
    worker: WorkerClient,
    snapshot: Snapshot,
    spans: Sequence[holes.HoleSpan],
    budget: FillBudget,
    request: InfillRequest,
    *,
    on_draft: OnDraft | None,
    only_whole: bool,
    marker: str,
) -> FillResult:
    request = replace(request, deadline_ms=budget.model_deadline_ms(len(spans) * request.candidates))
    try:  # a quick request has no deadline here: the next one cancels it
        answer = await worker.request(request, on_draft, None if budget.quick else budget.deadline)
    except TimeoutError:
        return FillResult([], is_late=True)
    whole = [candidate for candidate in answer.candidates if candidate.complete or not only_whole]
    deadline = postprocess.FitDeadline(max(budget.deadline.remaining_ms, _MIN_FIT_MS))
    try:  # in a thread, so that typing does not wait for it
        candidates, drops = await asyncio.to_thread(
            postprocess_all, snapshot, spans, whole, deadline, marker, budget.min_prob
        )
    finally:
        deadline.stop()
    current = current_hole_texts(snapshot, spans)
    is_late = answer.done.outcome is Outcome.DEADLINE
    return FillResult(
        candidates,
        is_late=is_late,
        is_unchanged=any(current) and any(candidate.texts == current for candidate in whole),
        was_cut=only_whole and not whole and (not is_late or bool(answer.candidates)),
        drops=drops,
        stats=answer.done.stats,
    )


def unfilled_message(texts: Sequence[str], current: Sequence[str]) -> str | None:
    """Tells the user how many holes an answer leaves unfilled; None if it fills them all."""
    count = count_unfilled(texts, current)
    return UNFILLED_MESSAGE.format(count, len(current)) if count else None

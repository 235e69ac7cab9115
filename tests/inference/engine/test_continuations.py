"""Continuations equal those of a whole causal pass, stay within the hole, and compete with the canvases."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import pytest

from inference.engine import Engine
from inference.engine.canvas import fills
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Plan
from inference.engine.search import continuations, rank
from inference.messages import Candidate, Draft, Hole, InfillRequest, Text
from inference.models.family import Context
from tests.inference.engine.filling import fill
from tests.inference.loaded import causal_logits, check_nothing_is_open, gemma, opened, planned

SOURCE = "import os\n\n\ndef size(path):\n    ret"
REST = "\n\n\nprint(size('.'))\n"
LINE = Hole(single_line=True)


@dataclass(frozen=True)
class Case:
    engine: Engine
    context: Context
    plan: Plan

    def write(self, count: int = 6, *, late: Callable[[], bool] = lambda: False) -> list[Written]:
        writing = continuations.write(self.engine.loaded, self.context, self.plan, count, 8, 0.5, late)
        while True:
            try:
                next(writing)
            except StopIteration as end:
                return end.value.found  # type: ignore[no-any-return]

    def open_ids(self, written: Written) -> list[int]:
        ((_, first, end),) = written.spans
        return list(written.ids[first:end])

    def texts(self, found: list[Written]) -> list[str]:
        holes, vocabulary = self.plan.layout.holes, self.engine.loaded.vocabulary
        return [fills.texts(vocabulary, one.ids, one.spans, holes)[0] for one in found]


@contextmanager
def case(engine: Engine, *segments: Text | Hole) -> Iterator[Case]:
    plan = planned(engine, *segments)
    with opened(engine, plan.prefix_ids) as context:
        yield Case(engine, context, plan)


def without_file_text(engine: Engine) -> Engine:
    return engine.using(msgspec.structs.replace(engine.loaded.properties, copying=False))


def test_they_stand_on_the_canvas_as_fills_and_pins_are_held(embedded: Engine) -> None:
    with case(embedded, Text(SOURCE), Hole(single_line=True, min_tokens=3, max_tokens=9), Text(REST)) as one:
        found = one.write()
        (hole,) = one.plan.layout.holes
        assert len(found) > 3
        for written in found:
            ((first, open_first, end),) = written.spans
            assert 3 <= end - open_first <= 9
            row = one.plan.layout.compose([end - open_first])
            pinned = [index for index in range(len(row.ids)) if not open_first <= index < end]
            assert [written.ids[index] for index in pinned] == [row.ids[index] for index in pinned]
            assert written.ids[open_first] in hole.allowed
            assert not set(written.ids[first:end]) & set(embedded.loaded.vocabulary.line_break_ids)
            assert all(id_ >= embedded.loaded.properties.first_text_token_id for id_ in written.ids[first:end])
            assert all(0 < sure <= 1 for sure in written.confidences)
            assert {written.confidences[index] for index in pinned} == {1.0}
        texts = one.texts(found)
        assert len(set(texts)) == len(texts)
        assert not any("\n" in text for text in texts)


def test_the_first_is_the_likeliest(embedded: Engine) -> None:
    """One continuation alone is what whole passes write greedily, up to each of its ends."""
    engine = without_file_text(embedded)
    with case(engine, Text(SOURCE + "urn "), LINE, Text(REST)) as one:
        found = [one.open_ids(written) for written in one.write(1)]
        (hole,) = one.plan.layout.holes
        first, other = continuations.row_biases(engine.loaded, one.plan)
        prefix, greedy = [*one.plan.prefix_ids, *hole.forced], list[int]()
        for _ in range(max(map(len, found))):
            logits = causal_logits(gemma(engine).network, [*prefix, *greedy])[-1]
            greedy.append(int((logits + (other if greedy else first)).argmax()))
        assert len(found) > 1
        assert all(ids == greedy[: len(ids)] for ids in found)


def test_best_come_first_by_one_whole_pass(embedded: Engine) -> None:
    """Sampled token by token in a batch; recomputed here in one pass each, without a cache."""
    with case(without_file_text(embedded), Text(SOURCE + "urn "), LINE, Text(REST)) as one:
        (hole,), suffix = one.plan.layout.holes, one.plan.layout.suffix
        prefix, scores = [*one.plan.prefix_ids, *hole.forced], list[float]()
        for written in one.write():
            tokens = one.open_ids(written)
            logits = causal_logits(gemma(embedded).network, [*prefix, *tokens, suffix[0]]).log_softmax(-1)
            each = [float(logits[len(prefix) + i - 1, id_]) for i, id_ in enumerate([*tokens, suffix[0]])]
            scores.append(rank.weighted(sum(each[:-1]), len(tokens), each[-1], rank.REST_OF_LINE))
    assert len(scores) > 3
    assert scores == pytest.approx(sorted(scores, reverse=True), abs=1e-4)


def test_half_a_word_is_only_continued_by_what_completes_it(embedded: Engine) -> None:
    typed = Hole(single_line=True, starts_with="Ωμ")
    for source, hole in (("import numpy\nx = numpy.concaten", LINE), ("x = ", typed)):
        with case(embedded, Text(source), hole, Text("\n")) as one:
            found = one.write()
            (slots,) = one.plan.layout.holes
            assert found
            assert all(one.open_ids(written)[0] in slots.allowed for written in found)


ADD = (
    "def name_{0}(first, second):\n    total = first + {0}\n    for each in second:\n        total += 1\n    return {1}"
)


def test_how_sure_it_is_does_not_suffer_from_what_was_typed(embedded: Engine) -> None:
    """`total` is expected. That `f` was typed instead says nothing against `irst`."""
    source = "\n\n\n".join(ADD.format(number, "total" if number < 15 else "f") for number in range(16))
    answer = fill(embedded, source, LINE, "\n", seed=1, quick=True)
    assert answer.text.startswith("irst")
    assert answer.candidates[0].confidence > 0.2


def test_once_it_is_late_what_there_is_is_taken(embedded: Engine) -> None:
    with case(embedded, Text(SOURCE), LINE, Text(REST)) as one:
        assert one.texts(one.write(late=lambda: True)) == []
        steps = iter([False, False, True])
        assert max(written.steps for written in one.write(late=lambda: next(steps))) == 2


@pytest.mark.parametrize(
    "segments",
    [
        (Text(SOURCE), Hole(), Text(REST)),
        (Text(SOURCE), Hole(single_line=True, min_tokens=4, max_tokens=4), Text(REST)),
        (Text(SOURCE), Hole(single_line=True, text="urn 1", strength=0.5), Text(REST)),
        (Text("a ="), LINE, Text("\nb ="), LINE, Text("\n")),
    ],
    ids=["several lines", "known length", "reworked", "two holes"],
)
def test_the_prefix_is_continued_for_one_open_line(embedded: Engine, segments: tuple[Text | Hole, ...]) -> None:
    with case(embedded, *segments) as one:
        assert not continuations.wanted(embedded.loaded, one.plan)


def test_what_disagrees_with_text_typed_meanwhile_is_dropped(embedded: Engine) -> None:
    run = embedded.infill(InfillRequest("r", (Text(SOURCE), LINE, Text(REST)), candidates=8, drafts=True, seed=1))
    typed, told = "urn os.pathq", list[str]()
    for number, event in enumerate(run):
        if number == 4:
            assert isinstance(event, Draft), "the prefix is being continued"
            run.amend(0, typed)
        told += [event.texts[0]] if isinstance(event, Candidate) else []
    assert told
    assert all(text.startswith(typed) for text in told)


def test_continuations_compete_with_canvases(embedded: Engine) -> None:
    embedded = embedded.using(msgspec.structs.replace(embedded.loaded.properties, enough=None))
    origins = set()
    for number in range(6):
        segments = (Text(f"import os\nCOUNT_{number} = {number}\n\n\ndef size(path"), LINE, Text("):\n    return 1\n"))
        answer = fill(embedded, *segments, candidates=8, drafts=True, seed=number)
        assert answer.drafts[-1].texts == answer.candidates[0].texts
        with case(embedded, *segments) as one:
            written = one.texts(one.write())
        origins |= {candidate.texts[0] in written for candidate in answer.candidates}
        if len(origins) == 2:
            break
    assert origins == {True, False}
    run = embedded.infill(InfillRequest("r", (Text(SOURCE), LINE, Text(REST))))
    for _ in range(4):
        next(run)
    run.close()
    check_nothing_is_open(embedded)


def test_likely_continuation_needs_no_canvas(embedded: Engine) -> None:
    segments = (Text(SOURCE), LINE, Text(REST))

    def filled(enough: float | None, quick_enough: float | None = None, **options: bool) -> tuple[str, int]:
        stated = embedded.loaded.properties
        stated = msgspec.structs.replace(stated, enough=enough, quick_enough=quick_enough, line_steps=None)
        answer = fill(embedded.using(stated), *segments, seed=1, **options)
        return answer.text, answer.done.stats.steps

    text, steps = filled(-100.0)
    assert text
    assert steps == 0
    assert filled(0.0)[1] > 0
    assert filled(None)[1] > filled(None, quick=True)[1] > 0
    assert filled(None, -100.0, quick=True)[1] == 0, "less is enough where nobody asked"
    assert filled(None, -100.0)[1] > 0


def test_continuation_is_drafted_token_by_token(embedded: Engine) -> None:
    for enough in (-100.0, None):
        engine = embedded.using(msgspec.structs.replace(embedded.loaded.properties, enough=enough))
        answer = fill(engine, SOURCE, LINE, REST, drafts=True)
        steps = [draft.step for draft in answer.drafts]
        assert len(steps) > 2
        assert steps == [*range(1, len(steps)), len(steps) - 1]
        assert answer.drafts[-1].texts == answer.candidates[-1].texts
        assert all(draft.step <= draft.max_steps for draft in answer.drafts)


def test_the_file_tells_a_name_that_the_prefix_is_too_short_for(embedded: Engine) -> None:
    """The name stands beyond what the model reads; the search without the file cannot know it."""
    far = "\n".join(f"value_{number} = {number} * {number}" for number in range(120))
    before = f"zebra_quantifier = frobnicate_widely(zebra_input)\n{far}\nzebra_quantifier = frobnicate_"
    for engine, known in ((embedded, True), (without_file_text(embedded), False)):
        texts = [one.texts[0] for one in fill(engine, before, LINE, "\n", candidates=6, seed=1).candidates]
        assert any(text.startswith("widely(zebra_input)") for text in texts) is known

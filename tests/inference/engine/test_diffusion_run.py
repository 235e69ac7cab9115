"""The results of a request: whole answers, respected pins and constraints, drafts, deadlines, and freed memory."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from inference.deadline import Deadline
from inference.engine.engine import Engine
from inference.engine.errors import RequestError
from inference.engine.loaded_model import RequestSeeds
from inference.messages import Done, Draft, FilledHoles, Hole, HoleKind, InfillRequest, Outcome, PinnedText
from inference.models import registry
from inference.models.diffusion_gemma.adapter import DiffusionGemmaAdapter
from tests.inference.engine import filling
from tests.inference.loaded import check_nothing_is_open, planned
from tests.inference.models.random_model import save_random_checkpoint

SOURCE = "import os\n\n\ndef size(path):\n    "
REST = "\n\n\nprint(size('.'))\n"


@pytest.fixture(params=["embedded", "released"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["embedded", "released", "middle"])
def each(request: pytest.FixtureRequest) -> Engine:
    """A causal model too, which has no canvas."""
    return request.getfixturevalue(request.param)


def fill(
    engine: Engine, *segments: PinnedText | Hole, **options: object
) -> tuple[list[FilledHoles], Done, list[Draft]]:
    answer = filling.fill(engine, *segments, **options)
    assert answer.candidates
    return answer.candidates, answer.done, answer.drafts


FAR = "\n" + "\n".join(f"value_{i} = {i}" for i in range(60)) + "\nb ="


def test_candidates_differ_and_the_best_comes_first(engine: Engine) -> None:
    candidates, *_ = fill(
        engine, PinnedText(SOURCE), Hole(max_tokens=12), PinnedText(REST), candidates=4, max_steps=5, seed=3
    )
    whole = [c for c in candidates if c.texts[0] and "\ufffd" not in c.texts[0]]
    assert 1 < len(candidates) <= 4
    assert len({c.texts for c in candidates}) == len(candidates)
    assert [c.score for c in whole] == sorted((c.score for c in whole), reverse=True)


def test_without_a_seed_every_start_gives_the_same_fills(engine: Engine) -> None:
    """And another fill when asked again. What is only read ahead was not asked."""
    segments = PinnedText(SOURCE), Hole(max_tokens=12), PinnedText(REST)
    started = [Engine(replace(engine.loaded, seeds=RequestSeeds())) for _ in range(2)]
    assert list(started[1].infill(InfillRequest("r", segments, prefill_only=True)))
    texts, again = ([fill(each, *segments, max_steps=5)[0][0].texts for _ in range(4)] for each in started)
    assert texts == again
    assert len(set(texts)) > 1


def test_special_tokens_never_stand_in_a_fill(engine: Engine) -> None:
    forbidden = set(engine.loaded.vocabulary.special_ids)
    for seed in range(3):
        candidates, *_ = fill(engine, PinnedText(SOURCE), Hole(max_tokens=16), PinnedText(REST), max_steps=2, seed=seed)
        assert not forbidden & set(engine.loaded.vocabulary.encode(candidates[0].texts[0]))


def test_drafts_follow_the_canvas_from_step_to_step(embedded: Engine) -> None:
    segments = (PinnedText("a ="), Hole(max_tokens=6), PinnedText("\nb ="), Hole(max_tokens=6), PinnedText("\n"))
    candidates, _, drafts = fill(embedded, *segments, drafts=True, max_steps=6, seed=2)
    assert drafts[-1].texts == candidates[0].texts
    *steps, last = [draft.step for draft in drafts]
    assert steps == list(range(1, len(steps) + 1))
    assert last == steps[-1]  # the one that was chosen, shown once more
    for draft in drafts:
        assert len(draft.pieces) == len(draft.confidences) == 2
        assert all(0 <= c <= 1 for numbers in draft.confidences for c in numbers)
        assert [len(p) for p in draft.pieces] == [len(c) for c in draft.confidences]


def test_at_the_deadline_the_best_whole_answer_is_sent(engine: Engine) -> None:
    hole = Hole(max_tokens=8, text="???")
    segments = (PinnedText("a ="), hole, PinnedText(FAR), hole, PinnedText("\n"))
    request = InfillRequest("r", segments, max_steps=48, seed=1)
    *_, candidate, done = [e for e in engine.infill(request, deadline=Deadline(0)) if e is not None]
    assert not candidate.complete
    assert done.outcome is Outcome.DEADLINE
    assert candidate.steps == 1  # the first hole is whole, if not good; the second keeps what stands in it
    assert len(candidate.texts) == 2
    assert candidate.unfilled == (1,)
    assert candidate.texts[1] == "???"


@pytest.mark.parametrize(("hole", "least"), [(Hole(single_line=True), 2), (Hole(kind=HoleKind.BODY), 8)])
def test_late_request_gets_the_likeliest_length(engine: Engine, hole: Hole, least: int) -> None:
    request = InfillRequest("r", (PinnedText(SOURCE), hole, PinnedText(REST)), seed=1, drafts=True)
    events = engine.infill(request, deadline=Deadline(0))
    draft = [event for event in events if isinstance(event, Draft)][-1]  # what repeats itself is no candidate
    assert len(draft.pieces[0]) >= least


def test_a_late_request_costs_no_more_however_many_holes_it_has(embedded: Engine) -> None:
    segments = tuple(part for _ in range(200) for part in (PinnedText("x = "), Hole(text="???"), PinnedText("\n" * 40)))
    request = InfillRequest("r", segments, candidates=16, max_steps=48)
    *_, done = embedded.infill(request, deadline=Deadline(0))
    assert done.stats.canvases == 1
    assert done.stats.steps <= 2


def test_a_candidate_has_its_tokens_with_a_probability_each(embedded: Engine) -> None:
    parts = (PinnedText(SOURCE), Hole(min_tokens=5, max_tokens=6, starts_with="ret"), PinnedText(REST))
    for seed in range(200):
        (candidate, *_), _, drafts = fill(embedded, *parts, max_steps=4, seed=seed, drafts=True)
        if "\ufffd" not in candidate.texts[0]:  # half a character has no place in a draft, nor has how sure it is
            break
    assert "\ufffd" not in candidate.texts[0]
    assert "".join(candidate.pieces[0]) == candidate.texts[0]
    assert len(candidate.confidences[0]) == len(candidate.pieces[0])
    assert all(0 < prob <= 1 for prob in candidate.confidences[0])
    (given, *_), _, _ = fill(embedded, PinnedText("x = "), Hole(text="1", strength=0.0), PinnedText("\n"))
    assert (given.pieces, given.confidences) == ((("1",),), ((1.0,),))


def test_half_a_character_is_never_offered(tmp_path: Path) -> None:
    """Of two holes of four bytes each, in which this model mostly writes half a character."""
    save_random_checkpoint(tmp_path, parts=1.0)
    engine, hole = Engine(registry.load_model(str(tmp_path), device="cpu")), Hole(min_tokens=4, max_tokens=4)
    answered = []
    for seed in range(30):
        segments = (PinnedText(SOURCE), hole, PinnedText("\nb = "), hole, PinnedText(REST))
        events = engine.infill(InfillRequest("r", segments, max_steps=2, seed=seed))
        answered.append([event for event in events if isinstance(event, FilledHoles)])
    assert not any("\ufffd" in text for found in answered for each in found for text in each.texts)
    assert [] in answered, "where both are halves there is no candidate"
    assert {number for found in answered for each in found for number in each.unfilled} == {0, 1}
    (candidate, *_), _, _ = fill(engine, PinnedText("x = "), Hole(text="caf\ufffd", strength=0.0), PinnedText("\n"))
    assert candidate.texts == ("caf\ufffd",), "what the user has there stays"


def test_interleaved_requests_answer_as_they_would_alone(each: Engine) -> None:
    parts = [(PinnedText(SOURCE + "x" * n), Hole(max_tokens=6), PinnedText(REST)) for n in range(3)]
    requests = [InfillRequest(str(n), segments, max_steps=4, seed=n) for n, segments in enumerate(parts)]
    alone = [[e.texts for e in each.infill(r) if isinstance(e, FilledHoles)] for r in requests]
    running: list[tuple[int, Iterator[object]]] = [(n, each.infill(r)) for n, r in enumerate(requests)]
    together: list[list[tuple[str, ...]]] = [[] for _ in requests]
    while running:
        for number, events in list(running):
            event = next(events, "end")
            if isinstance(event, FilledHoles):
                together[number].append(event.texts)
            if event == "end":
                running.remove((number, events))
    assert together == alone
    if isinstance(each.loaded.adapter, DiffusionGemmaAdapter):
        check_nothing_is_open(each)


def test_strength_decides_what_is_kept_and_the_steps(engine: Engine) -> None:
    text = "return os.path.getsize(path)"
    kept, *_ = fill(engine, PinnedText(SOURCE), Hole(text=text, strength=0.0), PinnedText(REST), max_steps=4, seed=1)
    assert kept[0].texts == (text,)
    filled, *_ = fill(engine, PinnedText(SOURCE), Hole(max_tokens=6), PinnedText(REST), max_steps=4, seed=1)
    forgot, *_ = fill(engine, PinnedText(SOURCE), Hole(text=text, max_tokens=6), PinnedText(REST), max_steps=4, seed=1)
    assert forgot[0].texts == filled[0].texts
    weak, *_ = fill(engine, PinnedText(SOURCE), Hole(text=text, strength=0.25), PinnedText(REST), max_steps=8, seed=1)
    assert 0 < weak[0].steps <= 2


@pytest.mark.parametrize("source", [SOURCE, "import os\n", "size = ", "x = f(", ""])
def test_the_token_healed_into_reworked_text_is_not_reworked(engine: Engine, source: str) -> None:
    """Else the bytes that stand before the hole would be cut off another token."""
    vocabulary, text = engine.loaded.vocabulary, "return os.path.getsize(path)"
    hole = Hole(text=text, strength=0.5, single_line=True)
    (slots,) = planned(engine, PinnedText(source), hole, PinnedText(REST)).holes
    given = vocabulary.bytes_of(list(slots.forced_ids + slots.existing_ids))
    before = given[: slots.num_healed_bytes]
    assert given == before + text.encode()
    assert source.endswith(before.decode())
    open_start = before[len(vocabulary.bytes_of(list(slots.forced_ids))) :]
    if open_start:
        assert slots.allowed_ids
        assert all(vocabulary.bytes_of([token]).startswith(open_start) for token in slots.allowed_ids)


@pytest.mark.parametrize(
    ("segments", "steps", "message"),
    [
        ((), None, "no hole"),
        ((PinnedText("x"),), None, "no hole"),
        ((Hole(min_tokens=0),), None, "0 to 0"),
        ((Hole(min_tokens=5, max_tokens=3),), None, "5 to 3"),
        ((Hole(text="x", strength=1.5),), None, "strength"),
        *(((Hole(text="foo", strength=strength, starts_with="bar"),), None, "contradicts") for strength in (0.4, 0.0)),
        ((Hole(),), 0, "max_steps"),
        ((Hole(),), 1 << 40, "max_steps"),
    ],
)
def test_nonsense_is_refused(each: Engine, segments: tuple[Hole, ...], steps: int | None, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        list(each.infill(InfillRequest("r", segments, max_steps=steps)))


def test_a_long_start_makes_room_for_itself(embedded: Engine) -> None:
    """Seen in the last draft: this small model repeats itself in the other holes, and such a fill is no candidate."""
    long = " some_function(first_argument, second_argument, third_argument)" * 2
    starts = (long, "", "", "")
    holes = (("\nx =", Hole(starts_with=start, min_tokens=14, max_tokens=14)) for start in starts)
    drafts = filling.fill(embedded, *chain(*holes), "\n", drafts=True, max_steps=6, seed=1).drafts
    assert drafts[-1].texts[0].startswith(long)
    assert len(drafts[-1].texts) == 4
    with pytest.raises(RequestError, match="does not fit"):
        filling.fill(embedded, Hole(starts_with="x" * 5000))

"""Requests to a causal model: candidates, several holes, rework, typing, deadlines and scores."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from inference.deadline import Deadline
from inference.engine.canvas.plan import TextAndHoles
from inference.engine.engine import Engine
from inference.engine.fim.decode import Decoder
from inference.engine.fim.fim_run import JointFillScorer
from inference.engine.fim.prompt import PromptBuilder
from inference.messages import Done, Hole, HoleKind, Outcome, PinnedText
from tests.inference.engine.filling import AFTER, BEFORE, Answer, fill, line, request

SEGMENTS = (BEFORE, line(), AFTER)
LONG = "".join(f"value_{number} = {number}\n" for number in range(3_000))


def slow_fill(engine: Engine, *segments: PinnedText | Hole | str) -> Answer:
    """The automatic answer of a machine that reads a hundred tokens within the deadline."""
    engine.loaded.adapter.prompt_token_ms = 400.0
    with closing(engine.infill(request(*segments, quick=True, reads_ahead=True), deadline=Deadline(60_000))) as work:
        return Answer(work)


def region(engine: Engine, texts: Sequence[str], all_fills: Sequence[Sequence[str]]) -> list[float]:
    """The log-probability of all from the first hole to the last with each of these fills."""
    loaded, family, found = engine.loaded, engine.loaded.adapter, list[float]()
    whole = JointFillScorer(
        loaded, PromptBuilder(loaded, request()), TextAndHoles(tuple(texts), (line(),) * (len(texts) - 1))
    )
    with closing(family.open_prefix(whole.prompt.ids)) as context:
        list(context.prefill())
        decoder = Decoder(loaded, context, 0, None)

        def read(fills: Sequence[str]) -> Iterator[None]:
            found.append((yield from whole.log_likelihood(decoder, fills)) or 0.0)

        for fills in all_fills:
            list(read(fills))
    return found


def test_candidates_differ_and_the_likeliest_comes_first(middle: Engine) -> None:
    answer = fill(middle, *SEGMENTS, candidates=5)
    texts = [candidate.texts for candidate in answer.candidates]
    assert len(set(texts)) == len(texts) == 5
    assert texts[0] == fill(middle, *SEGMENTS).candidates[0].texts
    assert all(candidate.complete for candidate in answer.candidates)
    for candidate in answer.candidates:
        (text,), (pieces,), (probs,) = candidate.texts, candidate.pieces, candidate.confidences
        assert ("".join(pieces), len(pieces)) == (text, len(probs))
        assert all(0 < prob <= 1 for prob in probs)
    rest = [candidate.score for candidate in answer.candidates[1:]]
    assert rest == sorted(rest, reverse=True)


def test_drafts_grow_into_the_answer(middle: Engine) -> None:
    answer = fill(middle, *SEGMENTS, drafts=True)
    assert answer.drafts
    assert answer.drafts[-1].texts == answer.candidates[0].texts
    for draft in answer.drafts:
        assert answer.text.startswith(draft.texts[0])
        assert len(draft.pieces[0]) == len(draft.confidences[0])
        assert all(0 <= sure <= 1 for sure in draft.confidences[0])
        assert 0 <= draft.step <= draft.max_steps


@pytest.mark.parametrize(
    "segments",
    [
        (Hole(),),
        (line(), "\nx = 1\n"),
        ("x =", line()),
        ("x =\r\n    ", line(), "\r\ny\r\n"),
        ("\u00e9\u0301 \U0001f980 = ", line(), "\n# \u2126\n"),
        ('x = "<|fim_suffix|><|endoftext|>"\ny = ', line(), "\nz = <|fim_middle|>\n"),
    ],
)
def test_every_text_around_a_hole_has_an_answer(middle: Engine, segments: tuple[PinnedText | Hole | str, ...]) -> None:
    answer = fill(middle, *segments)
    assert answer.text.strip()
    assert not any(hole.single_line and "\n" in answer.text for hole in segments if isinstance(hole, Hole))


def test_what_nobody_asked_for_is_one_short_answer_or_none(middle: Engine) -> None:
    answer = fill(middle, *SEGMENTS, quick=True, candidates=4)
    assert len(answer.candidates) <= 1
    assert all(candidate.tokens <= 32 for candidate in answer.candidates)


def test_an_automatic_text_ends_behind_its_first_doubt(middle: Engine) -> None:
    whole = fill(middle, *SEGMENTS, quick=True).candidates[0]
    least = min(whole.confidences[0][:-1])
    sure = "".join(whole.pieces[0][: whole.confidences[0].index(least)])
    answer = fill(middle, *SEGMENTS, quick=True, min_prob=least + 1e-6, reads_ahead=True)
    assert len(sure) < len(answer.text) < len(whole.texts[0])
    assert whole.texts[0].startswith(answer.text)
    assert not middle.is_prefill_pending, "nobody takes all of an unsure text"
    comment = (f"{BEFORE}# ", line(), AFTER)
    assert fill(middle, *comment, quick=True, min_prob=1.0).text == fill(middle, *comment, quick=True).text


@pytest.mark.parametrize("unfinished", ["r = os.", "x = ", "std::", "f(a, ", "a and "])
def test_code_that_cannot_end_gets_text_unasked(middle: Engine, unfinished: str) -> None:
    hole = Hole(single_line=True, may_be_empty=True, quotes="")
    copied = f"def f(a):\n    {unfinished}\n\n\ndef g(a):\n    {unfinished}"
    assert fill(middle, copied, hole, "\n", quick=True).text.strip()


def test_a_fill_has_no_more_tokens_than_it_may(middle: Engine) -> None:
    assert fill(middle, "x = 1\n", Hole(HoleKind.BODY, max_tokens=5), "\n").candidates[0].tokens <= 5


def test_several_holes_are_filled_each_seeing_the_others(middle: Engine) -> None:
    segments = ("def area(w, h):\n    total = ", line(), "\n    print(", line(), ")\n    return ", line(), "\n")
    answer = fill(middle, *segments, drafts=True, candidates=2)
    assert answer.done.stats.canvases == 3
    assert len(answer.candidates) == 2
    assert all(len(candidate.texts) == 3 and not candidate.unfilled for candidate in answer.candidates)
    one, other = (candidate.texts for candidate in answer.candidates)
    assert sum(a != b for a, b in zip(one, other, strict=True)) == 1
    assert all(len(draft.pieces) == 3 for draft in answer.drafts)
    assert answer.drafts[-1].texts == answer.candidates[0].texts


def test_several_texts_are_those_that_make_the_whole_likeliest(middle: Engine) -> None:
    gains = []
    for name in ("area", "names", "path"):
        end = "\n\n\ndef main():\n"
        texts = (f"def {name}(w, h):\n    {name} = ", f"\n    print({name}", f")\n    return {name}", end)
        asked = [each for text in texts[:-1] for each in (text, line(max_tokens=6))]
        in_order: list[str] = []
        for number in range(3):
            before = "".join(map("".join, zip(texts, in_order, strict=False))) + texts[number]
            in_order.append(fill(middle, before, line(max_tokens=6), "".join(texts[number + 1 :])).text)
        both = [in_order, fill(middle, *asked, texts[-1]).candidates[0].texts]
        one, other = region(middle, texts, both)
        gains.append(other - one)
    assert min(gains) > -1e-3
    assert max(gains) > 1.0, "other texts were never clearly likelier"


@pytest.mark.parametrize(
    ("before", "firsts"),
    [("        total", (" = w * h", "", " = w")), ("    total = ", ("1", "w * h", "'a'")), ("x = foo", ("1", "w * h"))],
)
def test_a_partly_known_region_is_as_likely_as_a_new_one(middle: Engine, before: str, firsts: tuple[str, ...]) -> None:
    texts = ("def area(w, h):\n" + before, "\n        print(", ")\n        return total\n")
    fills = [(first, second) for first in (*firsts, firsts[0]) for second in ("total", "total, w", "total")]
    assert region(middle, texts, fills) == pytest.approx([region(middle, texts, [each])[0] for each in fills], abs=1e-3)


def test_a_long_region_is_not_read_to_choose_texts(middle: Engine) -> None:
    hole = line(max_tokens=6)
    steps = [fill(middle, "a = ", hole, "\n" + "b = 1\n" * lines + "c = ", hole, "\n").done.stats for lines in (3, 300)]
    assert steps[0].steps > steps[1].steps


def test_no_region_is_read_for_which_there_is_no_time(middle: Engine) -> None:
    segments = ("a = f(", line(max_tokens=6), ")\nb = g(", line(max_tokens=6), ")\n" + LONG[-2000:])
    whole = fill(middle, *segments).done.stats
    middle.loaded.adapter.prompt_token_ms = 400.0
    with closing(middle.infill(request("# new\n", *segments), deadline=Deadline(60_000))) as work:
        answer = Answer(work)
    assert answer.done.outcome is Outcome.COMPLETE
    assert answer.done.stats.prefix_tokens < 200 < whole.prefix_tokens


@pytest.mark.parametrize("quick", [True, False])
def test_the_files_name_gives_way_to_another_text(middle: Engine, quick: bool) -> None:
    segments = ("import os\n\n\n# ", line(), "\n    return path\n")
    name = fill(middle, *segments, name_comment="# a.py\n").candidates[0].texts[0]
    answer = fill(middle, *segments, name_comment="# a.py\n", path=name, quick=quick)
    assert answer.candidates[0].texts != (name,)


def test_a_blank_text_leaves_little_time_for_alternatives(middle: Engine) -> None:
    """The likeliest text here is none."""
    asked = request("total += 1;", line(), "\ny = 2\n", candidates=5)
    with closing(middle.infill(asked)) as work:
        whole = Answer(work)
    with closing(middle.infill(asked, deadline=Deadline(10_000))) as work:
        time.sleep(2.6)  # more of the time than alternatives may take
        answer = Answer(work)
    assert answer.done.outcome is Outcome.COMPLETE
    assert all(any(map(str.isalnum, each.text)) for each in (whole, answer))
    assert answer.done.stats.steps < whole.done.stats.steps


def test_a_late_alternative_to_a_blank_text_is_cut_short(middle: Engine) -> None:
    """It would be lost otherwise, and the request have no answer."""

    class AfterSteps(Deadline):
        steps = 0
        is_past = property(lambda self: self.steps > 2)  # type: ignore[assignment]

    deadline, asked = AfterSteps(60_000), request("total += 1;", line(), "\ny = 2\n", candidates=5)
    with closing(middle.infill(asked, deadline=deadline)) as work:
        events = []
        for event in work:
            AfterSteps.steps += 1
            events.append(event)
    answer = Answer(events)
    assert any(map(str.isalnum, answer.text))


def test_rework_keeps_the_start_and_offers_other_texts(middle: Engine) -> None:
    old = "names.append(name)\n        print(name)"
    answer = fill(middle, BEFORE, Hole(HoleKind.BLOCK, text=old, strength=0.5), AFTER, candidates=3)
    assert answer.candidates
    for candidate in answer.candidates:
        assert candidate.texts[0] != old
        assert candidate.texts[0].startswith("names.append")


def test_what_is_typed_is_one_piece_and_certain(middle: Engine) -> None:
    whole = fill(middle, *SEGMENTS).text
    for typed in (whole[:2], "zq", whole + "more", "zq\n    "):
        answer = fill(middle, BEFORE, Hole(single_line="\n" not in typed, starts_with=typed), AFTER)
        assert answer.text.startswith(typed)
        (pieces,), (probs,) = answer.candidates[0].pieces, answer.candidates[0].confidences
        assert ("".join(pieces), pieces[0], probs[0]) == (answer.text, typed, 1.0)
        if whole.startswith(typed):
            assert answer.text == whole


def test_a_late_request_is_answered_with_what_there_is(middle: Engine) -> None:
    asked = request("# late\n" + LONG + "x = ", line(), "\ny = ", line(), "\n" + LONG)
    with closing(middle.infill(asked, deadline=Deadline(0))) as work:
        answer = Answer(work)
    assert answer.done.outcome is Outcome.DEADLINE
    assert not any(candidate.complete for candidate in answer.candidates)
    assert all(candidate.unfilled == (1,) for candidate in answer.candidates)
    assert answer.done.stats.steps <= 2


def test_work_that_is_closed_leaves_the_model_as_it_was(middle: Engine) -> None:
    whole = fill(middle, *SEGMENTS).candidates
    for passes in range(1, 6):
        with closing(middle.infill(request(*SEGMENTS))) as work:
            for _ in range(passes):
                next(work)
        assert [one.texts for one in fill(middle, *SEGMENTS).candidates] == [one.texts for one in whole]


def test_a_slow_machine_shows_less_of_what_follows_first(middle: Engine) -> None:
    before, after = LONG[-2000:] + "value_x = ", "\n" + LONG[-2000:]
    whole = fill(middle, before, line(), after).done.stats
    late = slow_fill(middle, before + "1\nvalue_y = ", line(), after).done.stats
    assert whole.prefix_tokens / 2 < late.prefix_tokens < whole.prefix_tokens - 200
    assert late.prefix_tokens - late.reused_tokens < 100, "what precedes was known"


def test_what_there_was_no_time_to_read_is_read_while_idle(middle: Engine) -> None:
    lines = LONG.splitlines(keepends=True)[:130]
    before, after = "".join(lines[:90]) + "value_y = ", "\n" + "".join(lines[90:])
    first = slow_fill(middle, before, line(), after)
    assert first.done.stats.prefix_tokens < 500
    while middle.run_idle_task():
        pass
    for typed in (f"{first.text}\n", "1"):  # the line below, and this one
        answer = slow_fill(middle, before + typed, line(), after).done.stats
        assert answer.prefix_tokens > 500, typed
        assert answer.prefix_tokens - answer.reused_tokens < 40, "all that precedes was known"


def test_a_prompt_is_prefilled_ahead_and_nothing_written(middle: Engine) -> None:
    before = LONG[:4_000] + "value_x = "
    ahead = [event for event in middle.infill(request(before, line(), AFTER, quick=True, prefill_only=True)) if event]
    assert [type(event) for event in ahead] == [Done] and middle.is_prefill_pending
    hits = middle.status_fields()["ahead_hits"]
    while middle.is_prefill_pending:
        middle.run_idle_task()
    stats = fill(middle, before + "7", line(), AFTER, quick=True).done.stats
    assert stats.prefix_tokens > 500 and stats.prefix_tokens - stats.reused_tokens < 20
    assert middle.status_fields()["ahead_hits"] == hits + 1
    fill(middle, before + "72", line(), AFTER, quick=True)
    assert middle.status_fields()["ahead_hits"] == hits + 1, "each place counts once"


@pytest.mark.parametrize("pieces", [24, 400], ids=["in a moment", "in a while"])
def test_a_slow_machine_reads_ahead_what_it_asks_for(middle: Engine, pieces: int) -> None:
    """First what there is time for anyway, then as much as is useful. Either is taken once it is all read."""
    before = f"{LONG[:4_000].replace('value', f'v{pieces}')}value_x = "
    middle.loaded.adapter.prompt_token_ms = 400.0
    ahead = request(before, line(), AFTER, quick=True, prefill_only=True)
    with closing(middle.infill(ahead, deadline=Deadline(60_000))) as work:
        list(work)
    for _ in range(pieces):
        middle.run_idle_task()
    stats = slow_fill(middle, before + "7", line(), AFTER).done.stats
    assert stats.prefix_tokens - stats.reused_tokens < 8
    assert (stats.prefix_tokens > 500) == (pieces == 400)

"""Given texts are scored by the model's own likelihood, as its fills are ranked, and in steps that can be stopped."""

import dataclasses
import time

import msgspec
import pytest
import torch

from inference.engine import Engine, RequestError
from inference.engine.canvas import prompt
from inference.engine.search import rank
from inference.messages import Done, Hole, InfillRequest, Outcome, ScoreRequest, Scores, Text
from tests.inference.engine.bigram_family import BigramFamily
from tests.inference.loaded import causal_logits, check_nothing_is_open, gemma

LINE = (Text("def add(a, b):\n    return"), Hole(single_line=True), Text("\n\n\nprint(add(1, 2))\n"))


def scored(engine: Engine, request: ScoreRequest) -> tuple[float, ...]:
    """The scores, and that Done comes after them and nothing behind it."""
    events = [event for event in engine.score(request) if event is not None]
    scores, done = events
    assert isinstance(scores, Scores)
    assert isinstance(done, Done)
    assert done.outcome is Outcome.COMPLETE
    assert scores.id == done.id == request.id
    return scores.scores


def one_each(*texts: str) -> tuple[tuple[str, ...], ...]:
    return tuple((text,) for text in texts)


def test_what_fits_is_likelier_than_what_does_not(embedded: Engine) -> None:
    good, odd, wrong = scored(embedded, ScoreRequest("s", LINE, one_each(" a + b", " zebra(b) ** 7", " )]] while")))
    assert good > odd > wrong


def test_a_text_has_one_score_whatever_it_is_compared_with(embedded: Engine) -> None:
    first, second = scored(embedded, ScoreRequest("s", LINE, one_each(" a + b", " a")))
    again, other = scored(embedded, ScoreRequest("s", LINE, one_each(" a", " a + b")))
    assert (first, second) == pytest.approx((other, again), abs=1e-4)


def test_the_score_is_the_likelihood_of_the_fill_and_of_the_start_of_what_follows(embedded: Engine) -> None:
    engine = embedded.using(msgspec.structs.replace(embedded.loaded.properties, copying=False))
    fill, (score,) = " a + b", scored(engine, ScoreRequest("s", LINE, one_each(" a + b")))
    vocabulary, weights = engine.loaded.vocabulary, rank.REST_OF_LINE
    before = prompt.prefix(vocabulary, engine.loaded.properties, LINE[0].text, 100)
    inside = vocabulary.encode(vocabulary.bytes_of(before[-1:]).decode() + fill)  # healed: a token early
    behind = vocabulary.encode(LINE[2].text)[: weights.suffix_tokens]
    ids = [*before[:-1], *inside, *behind]
    chances = causal_logits(gemma(engine).network, ids[:-1]).log_softmax(-1)
    known = [float(chances[at - 1, ids[at]]) for at in range(len(before) - 1, len(ids))]
    of_fill, of_suffix = known[: len(inside)], known[len(inside) :]
    expected = rank.weighted(sum(of_fill), len(inside), sum(of_suffix) / len(of_suffix), weights)
    assert score == pytest.approx(expected, abs=1e-4)


def test_its_own_best_fill_is_likelier_than_a_random_one(embedded: Engine) -> None:
    best = next(event for event in embedded.infill(InfillRequest("f", LINE, seed=1)) if hasattr(event, "texts"))
    own, other = scored(embedded, ScoreRequest("s", LINE, (best.texts, (" lambda: yield",))))
    assert own > other


def test_several_holes_are_scored_together(embedded: Engine) -> None:
    segments = (Text("a = "), Hole(), Text("\nb = "), Hole(), Text("\n"))
    good, odd = scored(embedded, ScoreRequest("s", segments, (("1", "2"), ("]]", "while("))))
    assert good > odd


def test_holes_far_apart_are_scored_too(embedded: Engine) -> None:
    segments = (Text("a = "), Hole(), Text("\nx = 1" * 200 + "\nb = "), Hole(), Text("\n"))
    good, odd = scored(embedded, ScoreRequest("s", segments, (("1", "1"), ("]]", ")else"))))
    assert good > odd


def test_an_empty_text_has_a_score_and_so_has_one_with_line_breaks(embedded: Engine) -> None:
    segments = (Text("def f():\n"), Hole(), Text("\n\nf()\n"))
    assert len(scored(embedded, ScoreRequest("s", segments, one_each("", "    x = 1\n    return x")))) == 2


def test_a_masked_model_scores_by_masking() -> None:
    engine = Engine(BigramFamily("x = area(width, height)\n" * 20))
    assert not engine.loaded.traits.can_score
    segments = (Text("x = area("), Hole(single_line=True), Text(", height)\n"))
    good, wrong = scored(engine, ScoreRequest("s", segments, one_each("width", "thgie")))
    assert good > wrong


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ((), "1 to 16 candidates"),
        ((("a",),) * 17, "1 to 16 candidates"),
        ((("a", "b"),), "2 texts for 1 holes"),
        (((),), "no text for 1 holes"),
        ((("x" * 100_000,),), "does not fit a canvas"),
    ],
)
def test_what_makes_no_sense_is_refused(embedded: Engine, candidates: tuple[tuple[str, ...], ...], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        scored(embedded, ScoreRequest("s", LINE, candidates))


def test_a_model_that_cannot_score_says_so(embedded: Engine) -> None:
    loaded = dataclasses.replace(embedded.loaded, traits=dataclasses.replace(embedded.loaded.traits, can_score=False))
    with pytest.raises(RequestError, match="how likely"):
        Engine(loaded).score(ScoreRequest("s", LINE, one_each(" a")))


def test_closing_it_frees_what_it_holds(embedded: Engine) -> None:
    work = embedded.score(ScoreRequest("s", LINE, one_each(" a")))
    next(work)
    work.close()
    check_nothing_is_open(embedded)


def test_at_the_deadline_there_are_no_scores(embedded: Engine) -> None:
    segments = (Text("a = "), Hole(), Text("\nx = 1" * 200 + "\nb = "), Hole(), Text("\n"))
    request = ScoreRequest("s", segments, (("1", "1"),))
    events = [event for event in embedded.score(request, deadline=time.monotonic() - 1) if event is not None]
    assert [type(event) for event in events] == [Done]
    assert torch.is_inference_mode_enabled() is False

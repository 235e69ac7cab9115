"""Which lengths are tried, how fills are ranked, and which few are finished."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.bench import infilling_tasks
from inference.bench.infilling import engine_filler
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import CanvasHole, CanvasPlan
from inference.engine.canvas.results import FilledCanvas
from inference.engine.denoising import length, rank
from inference.engine.denoising.denoise import Denoiser, NoiseSource
from inference.engine.denoising.prune import TRIAL_SUFFIX_TOKENS, is_pruning_due, prune, trial_canvases
from inference.engine.denoising.rank import FillRanker, ScoreWeights
from inference.engine.engine import Engine
from inference.messages import Draft, Hole, HoleKind, InfillRequest, PinnedText
from inference.models.family import PrefixHandle
from tests.inference.engine.bigram_family import MASK_ID, BigramFamily
from tests.inference.loaded import causal_logits, gemma, opened, planned

HOLES = st.builds(
    lambda low, more: CanvasHole(max_rows=low + more, min_rows=low), st.integers(1, 20), st.integers(0, 60)
)


@given(holes=st.lists(HOLES, min_size=1, max_size=3), count=st.integers(1, 8))
def test_lengths_keep_within_the_limits_of_every_hole(holes: list[CanvasHole], count: int) -> None:
    for choices in (length.grid_lengths(holes, count), length.candidate_lengths([*holes, CanvasHole(9)], count)):
        assert 1 <= len(choices) <= count
        assert len(set(choices)) == len(choices)
        for choice in choices:
            assert all(hole.min_rows <= size <= hole.max_rows for hole, size in zip(holes, choice, strict=False))


TUNING = Path(__file__).parents[2] / "data" / "tuning.jsonl.gz"
KNOWN = ("msgspec/_json_schema.py:244", "numpy/distutils/core.py:148", "mypyc/primitives/bytes_ops.py:91")
KNOWN += ("rich/scope.py:1", "httpx2/_utils.py:69")
"""What the twin writes exactly where it is told the length: two to four tokens."""

RIGHT = 2
"""So many of them it also writes without being told; with six lengths one."""

PASSES = 9
"""Decoder passes of a line, of which 48 are allowed by the published settings."""


def test_lines_get_their_length(twin: Engine) -> None:
    tasks = [task for task in infilling_tasks.read_tasks(TUNING) if task.task_id.removeprefix("span/") in KNOWN]
    assert len(tasks) == len(KNOWN)
    fills = [*map(engine_filler(twin), tasks)]
    assert sum(fill.exact for fill in fills) >= RIGHT, [fill.text for fill in fills]
    assert max(fill.passes for fill in fills) <= PASSES


def test_a_block_is_not_as_short_as_the_likelihood_would_have_it(twin: Engine) -> None:
    """Seen in the last draft: this small model repeats itself in a block, and such a fill is no candidate."""
    before = 'def area(width, height):\n    """The area."""\n    '
    segments = (PinnedText(before), Hole(HoleKind.BODY), PinnedText("\n\n\nx = 1\n"))
    request = InfillRequest("r", segments, max_steps=8, seed=0, drafts=True)
    *_, last = (event for event in twin.infill(request) if isinstance(event, Draft))
    assert len(last.texts[0]) >= 24


WEIGHTED = ScoreWeights(smoothing=3.0, suffix=2.0, suffix_tokens=8)


def by_hand(engine: Engine, ids: list[int], parts: tuple[list[int], list[int]], weights: ScoreWeights) -> float:
    every = [*ids, *parts[0], *parts[1]]
    log_probabilities = causal_logits(gemma(engine).network, every).log_softmax(-1)
    each = [float(log_probabilities[row, every[row + 1]]) for row in range(len(ids) - 1, len(every) - 1)]
    fill, suffix = each[: len(parts[0])], each[len(parts[0]) :]
    inside = sum(fill) / (len(fill) + weights.smoothing)
    score = (inside + weights.suffix * sum(suffix) / len(suffix)) / (1 + weights.suffix) if suffix else inside
    return score + weights.length * math.log(len(fill))


def test_scores_equal_those_of_one_whole_pass(embedded: Engine, released: Engine) -> None:
    for engine in (embedded, released):
        ids = engine.loaded.vocabulary.encode("def f(a, b):\n    total = a + b\n    return")
        encode = engine.loaded.vocabulary.encode
        texts = [(" total", "\n"), (" a", ""), (" max(a", ", b)\n"), (" b * b\n    b *= b", "\n\nprint(1)")]
        candidates = [(encode(fill), encode(suffix)) for fill, suffix in texts]
        for weights in (WEIGHTED, ScoreWeights(3.0, 4.0, 16, length=0.15), rank.MULTILINE_WEIGHTS):
            with opened(engine, ids) as context:
                found = rank.fill_scores(context, candidates, weights)
            for score, parts in zip(found, candidates, strict=True):
                assert abs(score - by_hand(engine, ids, parts, weights)) < 1e-3


def test_without_a_prefix_the_first_token_is_given(embedded: Engine) -> None:
    with opened(embedded, []) as context:
        assert rank.fill_scores(context, [([7], [])], rank.MULTILINE_WEIGHTS) == [0.0]


def test_of_a_model_that_cannot_score_the_surer_fill_ranks_first() -> None:
    """Only the tokens it chose count, not those that were given or stand behind the hole."""
    sure, unsure = (FilledCanvas([5, 6, 7, 8], [1.0, 1.0, chance, 1.0], [(1, 2, 3)], 1) for chance in (0.9, 0.2))
    assert sure.mean_logprob > unsure.mean_logprob
    assert FilledCanvas([5], [1.0], [(0, 1, 1)], 1).mean_logprob == 0.0


CODE = "x = area(width, height)\n" * 20
WEIGHTS = ScoreWeights(smoothing=0.0, suffix=2.0, suffix_tokens=3, length_deviation=0.5)


@pytest.fixture(scope="module")
def bigrams() -> Engine:
    return Engine(BigramFamily(CODE))


def written(bigrams: Engine, plan: CanvasPlan, *fills: str) -> FilledCanvas:
    """A canvas with these texts in its holes; the token that healing moved into a hole begins it."""
    encoded = [bigrams.loaded.vocabulary.encode(text) for text in fills]
    row = plan.compose([len(each) for each in encoded])
    ids = list(row.ids)
    for (_, first, end), each in zip(row.spans, encoded, strict=True):
        ids[first:end] = each
    return FilledCanvas(ids, [1.0] * len(ids), row.spans, 1)


def scores(bigrams: Engine, plan: CanvasPlan, several: Sequence[FilledCanvas], parts: int) -> tuple[list[float], int]:
    found: list[float] = []
    with closing(bigrams.loaded.adapter.open_prefix(plan.prefix_ids)) as context:
        ranking = FillRanker(bigrams.loaded, context, plan)
        ranking.weights = WEIGHTS
        passes = len(list(ranking.score_by_masking(several, found, parts)))
    return found, passes


def masked_by_hand(context: PrefixHandle, one: FilledCanvas, order: Sequence[Sequence[int]]) -> list[float]:
    found = []
    for number, part in enumerate(order):
        ids = torch.tensor([one.ids])
        ids[0, [row for later in order[number:] for row in later]] = MASK_ID
        logits = context.predict(ids, torch.tensor(part)).log_softmax(-1)
        found.append([float(logits[place, one.ids[row]]) for place, row in enumerate(part)])
    return [sum(each) for each in found]


def test_a_score_is_the_chain_rule_of_a_fill_and_what_follows_it(bigrams: Engine) -> None:
    """In a batch with others as alone: four tokens in two parts, then three tokens behind the hole."""
    plan = planned(bigrams, PinnedText("x = area(wi"), Hole(single_line=True), PinnedText(", height)\n"))
    several = [written(bigrams, plan, text) for text in ("dth", "dthwidth", "d")]
    found, passes = scores(bigrams, plan, several, 2)
    assert passes == 3
    context = bigrams.loaded.adapter.open_prefix(plan.prefix_ids)
    for score, one in zip(found, several, strict=True):
        ((_, first, end),) = one.spans
        middle = first + (end - first) // 2
        parts = [list(range(first, middle)), list(range(middle, end)), list(range(end, end + 3))]
        sums = masked_by_hand(context, one, [part for part in parts if part])
        mean = (sum(sums[:-1]) / (end - first) + 2 * sums[-1] / 3) / 3
        assert score == pytest.approx(mean - 0.5 * length.length_deviation(plan.holes, [end - first]), abs=1e-5)
    context.close()


def test_of_several_holes_what_follows_each_counts(bigrams: Engine) -> None:
    line = Hole(single_line=True)
    plan = planned(bigrams, PinnedText("x = ar"), line, PinnedText("(width, he"), line, PinnedText(")\n"))
    good, bad = written(bigrams, plan, "ea", "ight"), written(bigrams, plan, "width", "ight")
    (first, second), passes = scores(bigrams, plan, [good, bad], 4)
    assert passes == 5
    assert first > second


def test_at_the_end_of_a_file_the_fill_alone_is_scored(bigrams: Engine) -> None:
    plan = planned(bigrams, PinnedText("x = area(wi"), Hole(single_line=True))
    found, _ = scores(bigrams, plan, [written(bigrams, plan, text) for text in ("dth", "")], 4)
    assert all(map(math.isfinite, found))


REST = "\n\n\nx = 1\n" + "def less(a, b):\n    return a < b\n" * 3
FINISHED = 2
SEGMENTS = (PinnedText("def size(path):\n    ret"), Hole(max_tokens=16, single_line=True), PinnedText(REST))


@contextmanager
def begun(engine: Engine, lengths: Sequence[int], finished: int) -> Iterator[tuple[Denoiser, FillRanker, CanvasPlan]]:
    model = engine.loaded
    plan = planned(engine, *SEGMENTS)
    rows = trial_canvases([plan.compose([length]) for length in lengths], finished)
    canvas = CanvasBatch.from_canvases(rows, model.adapter.device)
    noise = NoiseSource.from_model(model.adapter.traits, model.infill_config, torch.Generator().manual_seed(1))
    constraint = model.constraint_builder.build(canvas, plan.holes)
    with opened(engine, plan.prefix_ids) as context:
        loop = Denoiser(context, canvas, model.infill_config.sampler, noise, max_steps=20, constraint=constraint)
        yield loop, FillRanker(model, context, plan), plan


def suffixes(loop: Denoiser) -> list[tuple[int, ...]]:
    ends = [spans[-1][2] for spans in loop.canvas.spans]
    rows = zip(loop.prediction_ids.tolist(), ends, loop.canvas.lengths, strict=True)
    return [tuple(ids[end:length]) for ids, end, length in rows]


def test_those_that_are_kept_go_on_as_they_stand(embedded: Engine) -> None:
    model, lengths = embedded.loaded, (2, 5, 7, 1)
    with begun(embedded, lengths, FINISHED) as (loop, ranking, plan):
        (hole,) = plan.holes
        assert hole.allowed_ids is not None, "the first row is held to what healing took off the prefix"
        for _ in range(3):
            loop.step()
        before, sure, feedback, owner = (
            loop.prediction_ids,
            loop.row_confidences,
            loop.feedback,
            loop.canvas.canvas_index,
        )
        kept = [2, 0, 1]
        loop.continue_with(kept, loop.canvas.select(kept, plan.suffix, plan.width))
        assert [end - first for ((_, first, end),) in loop.canvas.spans] == [lengths[old] for old in kept]
        for new, old in enumerate(kept):
            ((_, _, end),) = loop.canvas.spans[new]
            assert torch.equal(loop.prediction_ids[new, :end], before[old, :end])
            assert torch.equal(loop.row_confidences[new, :end], sure[old, :end])
            assert torch.equal(loop.feedback[loop.canvas.canvas_index == new], feedback[owner == old])
        fresh, held = model.constraint_builder.build(loop.canvas, plan.holes), loop.constraint
        assert torch.equal(fresh.biases[fresh.bias_index], held.biases[held.bias_index])
        loop.step()
        assert is_pruning_due(loop, plan, FINISHED)
        best = ranking.rank(loop.filled_canvases)[:FINISHED]
        assert prune(ranking, loop, plan, FINISHED) == [one.canvas for one in best]
        left = ranking.rank(loop.filled_canvases)
        assert [(one.texts, one.canvas.steps) for one in left] == [(one.texts, one.canvas.steps) for one in best]
        while not loop.is_finished:
            loop.step()
        ((_, first, _),) = loop.canvas.spans[0]
        assert int(loop.prediction_ids[0, first]) in hole.allowed_ids
        unwritten = {model.infill_config.mask_token_id}
        assert not set(loop.prediction_ids[0].tolist()[first:]) & unwritten


@pytest.mark.parametrize("finished", [1, FINISHED, FINISHED + 1])
def test_few_canvases_are_finished_with_the_whole_suffix(embedded: Engine, finished: int) -> None:
    with begun(embedded, range(1, 11), finished) as (loop, ranking, plan):
        assert len(plan.suffix) > TRIAL_SUFFIX_TOKENS
        kept = []
        while not loop.is_finished:
            assert set(suffixes(loop)) == {plan.suffix[: None if kept else TRIAL_SUFFIX_TOKENS]}
            loop.step()
            if is_pruning_due(loop, plan, finished):
                prune(ranking, loop, plan, finished)
                kept.append(loop.canvas.batch_size)
                assert not is_pruning_due(loop, plan, finished)
    assert kept == [finished]


def test_kept_canvases_see_the_whole_suffix(embedded: Engine) -> None:
    """What the user typed, or that two were alike, may have left no more than are wanted."""
    with begun(embedded, (8, 9, 10), finished=2) as (loop, ranking, plan):
        loop.continue_with([0], loop.canvas.select([0], plan.suffix[:3], plan.width))
        while not is_pruning_due(loop, plan, 2):
            loop.step()
        prune(ranking, loop, plan, 2)
        assert suffixes(loop) == [plan.suffix]

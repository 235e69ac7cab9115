"""Few of many lengths are finished: the survivors continue from their current state, with the same pins."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import torch

from inference.engine import Engine
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import Plan
from inference.engine.search.denoise import Denoising, Noise
from inference.engine.search.prune import TRIAL_SUFFIX_TOKENS, is_due, prune, tried
from inference.engine.search.rank import Ranking
from inference.messages import Hole, Text
from tests.inference.loaded import opened, planned

REST = "\n\n\nx = 1\n" + "def less(a, b):\n    return a < b\n" * 3
FINISHED = 2
SEGMENTS = (Text("def size(path):\n    ret"), Hole(max_tokens=16, single_line=True), Text(REST))


@contextmanager
def begun(engine: Engine, lengths: Sequence[int], finished: int) -> Iterator[tuple[Denoising, Ranking, Plan]]:
    model = engine.loaded
    plan = planned(engine, *SEGMENTS)
    rows = tried([plan.compose([length]) for length in lengths], finished)
    canvas = CanvasBatch.of(rows, model.family.device)
    noise = Noise.of(model.family.traits, model.properties, torch.Generator().manual_seed(1))
    constraint = model.constraints.of(canvas, plan.holes)
    with opened(engine, plan.prefix_ids) as context:
        loop = Denoising(context, canvas, model.properties.sampler, noise, max_steps=20, constraint=constraint)
        yield loop, Ranking(model, context, plan), plan


def suffixes(loop: Denoising) -> list[tuple[int, ...]]:
    ends = [spans[-1][2] for spans in loop.canvas.spans]
    rows = zip(loop.answer.tolist(), ends, loop.canvas.lengths, strict=True)
    return [tuple(ids[end:length]) for ids, end, length in rows]


def test_those_that_are_kept_go_on_as_they_stand(embedded: Engine) -> None:
    model, lengths = embedded.loaded, (2, 5, 7, 1)
    with begun(embedded, lengths, FINISHED) as (loop, ranking, plan):
        (hole,) = plan.holes
        assert hole.allowed is not None, "the first row is held to what healing took off the prefix"
        for _ in range(3):
            loop.step()
        before, sure, feedback, owner = loop.answer, loop.row_confidences, loop.feedback, loop.canvas.owner
        kept = [2, 0, 1]
        loop.go_on_with(kept, loop.canvas.keep(kept, plan.suffix, plan.width))
        assert [end - first for ((_, first, end),) in loop.canvas.spans] == [lengths[old] for old in kept]
        for new, old in enumerate(kept):
            ((_, _, end),) = loop.canvas.spans[new]
            assert torch.equal(loop.answer[new, :end], before[old, :end])
            assert torch.equal(loop.row_confidences[new, :end], sure[old, :end])
            assert torch.equal(loop.feedback[loop.canvas.owner == new], feedback[owner == old])
        fresh, held = model.constraints.of(loop.canvas, plan.holes), loop.constraint
        assert torch.equal(fresh.biases[fresh.of_row], held.biases[held.of_row])
        loop.step()
        assert is_due(loop, plan, FINISHED)
        best = ranking.ranked(loop.standing)[:FINISHED]
        assert prune(ranking, loop, plan, FINISHED) == [one.written for one in best]
        left = ranking.ranked(loop.standing)
        assert [(one.texts, one.written.steps) for one in left] == [(one.texts, one.written.steps) for one in best]
        while not loop.finished:
            loop.step()
        ((_, first, _),) = loop.canvas.spans[0]
        assert int(loop.answer[0, first]) in hole.allowed
        unwritten = {model.properties.mask_token_id}
        assert not set(loop.answer[0].tolist()[first:]) & unwritten


@pytest.mark.parametrize("finished", [1, FINISHED, FINISHED + 1])
def test_few_canvases_are_finished_with_the_whole_suffix(embedded: Engine, finished: int) -> None:
    with begun(embedded, range(1, 11), finished) as (loop, ranking, plan):
        assert len(plan.suffix) > TRIAL_SUFFIX_TOKENS
        kept = []
        while not loop.finished:
            assert set(suffixes(loop)) == {plan.suffix[: None if kept else TRIAL_SUFFIX_TOKENS]}
            loop.step()
            if is_due(loop, plan, finished):
                prune(ranking, loop, plan, finished)
                kept.append(loop.canvas.batch)
                assert not is_due(loop, plan, finished)
    assert kept == [finished]


def test_kept_canvases_see_the_whole_suffix(embedded: Engine) -> None:
    """What the user typed, or that two were alike, may have left no more than are wanted."""
    with begun(embedded, (8, 9, 10), finished=2) as (loop, ranking, plan):
        loop.go_on_with([0], loop.canvas.keep([0], plan.suffix[:3], plan.width))
        while not is_due(loop, plan, 2):
            loop.step()
        prune(ranking, loop, plan, 2)
        assert suffixes(loop) == [plan.suffix]

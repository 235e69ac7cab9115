"""Of many lengths few are finished: those that go on do so from where they stand, as held as before."""

from contextlib import closing

import torch

from inference.engine import Engine, answers
from inference.engine.canvas import Canvas
from inference.engine.denoise import Denoising, NoiseSource
from inference.engine.infilling import _Held
from inference.engine.plan import Planner
from inference.engine.pruning import is_due, prune
from inference.messages import Hole, InfillRequest, Text

SEGMENTS = (Text("def size(path):\n    ret"), Hole(max_tokens=8, single_line=True), Text("\n\n\nx = 1\n"))
REQUEST = InfillRequest("r", SEGMENTS)
LENGTHS = (2, 5, 7, 1)
STEPS = 12


def test_those_that_are_kept_go_on_as_they_stand(embedded: Engine) -> None:
    tools = embedded.tools
    planner = Planner(tools.vocabulary, tools.properties, REQUEST)
    plan = planner.plan(planner.groups[0], [])
    holes = plan.layout.holes
    assert holes[0].allowed is not None, "the first row is held to what healing took off the prefix"
    canvas = Canvas.of([plan.layout.compose([length]) for length in LENGTHS], tools.network.device)
    source = NoiseSource(tools.properties.mask_token_id, torch.Generator().manual_seed(1))
    with closing(_Held(tools.prefixes.acquire(plan.prefix_ids))) as held:
        tools.network.encode(torch.tensor([plan.prefix_ids[held.lease.length :]]), held.lease)
        held.lease.commit(plan.prefix_ids[held.lease.length :])
        loop = Denoising(
            tools.network,
            held.lease.view(len(LENGTHS)),
            canvas,
            tools.properties.sampler,
            source,
            max_steps=STEPS,
            constraint=tools.constraints.of(canvas, holes),
        )
        for _ in range(4):
            assert not is_due(loop, 2)
            loop.step()
        before, sure = loop.answer, loop.row_confidences
        loop.keep([2, 0], held.lease.view(2))
        assert [end - first for ((_, first, end),) in loop.canvas.spans] == [LENGTHS[2], LENGTHS[0]]
        width = max(loop.canvas.lengths)
        assert torch.equal(loop.answer, before[[2, 0], :width])
        assert torch.equal(loop.row_confidences, sure[[2, 0], :width])
        fresh, kept = tools.constraints.of(loop.canvas, holes), loop._constraint
        assert kept is not None
        assert torch.equal(fresh.biases[fresh.of_row], kept.biases[kept.of_row])
        best = answers.ranked(tools, held.lease, plan, loop, quick=False)[0]
        prune(tools, loop, held.lease, plan, 1)
        ((kept_answer,),) = (answers.ranked(tools, held.lease, plan, loop, quick=True),)
        assert (kept_answer.texts, kept_answer.steps) == (best.texts, best.steps)
        while not loop.finished:
            loop.step()
    ((_, first, _),) = loop.canvas.spans[0]
    assert int(loop.answer[0, first]) in holes[0].allowed
    assert not set(loop.answer[0].tolist()[first:]) & {tools.properties.mask_token_id, tools.properties.slack_token_id}

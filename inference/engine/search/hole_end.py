"""Where a hole ends, by a masked model's own distribution: how likely what follows it would begin at each row.

A hole is shown with more masked rows than it needs and nothing behind it. Where its text would be over, the model finds
the suffix's first tokens likely in the rows that follow. That tells more of the length than how sure the model is of
rows, and it costs one pass for all lengths.
"""

import torch

from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.models.family import Context

_FOLLOWING = 3
"""How many of the suffix's tokens are looked for at each row."""


@torch.inference_mode()
def log_chances(model: LoadedModel, context: Context, plan: Plan) -> list[float]:
    """For each length from 0 on, the log-probability that the hole has it, by this alone; one pass.

    Empty, without a pass, where a plan has several holes, a hole's length is given or nothing follows it.
    """
    (hole, *others), following = plan.layout.holes, list(plan.layout.suffix[:_FOLLOWING])
    if others or not following or hole.minimum == hole.maximum:
        return []
    rows = min(hole.maximum + len(following), plan.layout.width - len(hole.forced))
    device, mask = model.family.device, model.properties.mask_token_id
    assert mask is not None, "a masked model has one"
    ids = torch.tensor([[*hole.forced, *[mask] * rows]], device=device)
    logits = context.predict(ids, torch.arange(len(hole.forced), len(hole.forced) + rows, device=device))
    chances = logits.log_softmax(-1)[:, following]
    begins = [chances[row : row + len(following)].diagonal().mean() for row in range(min(rows, hole.maximum + 1))]
    found: list[float] = torch.stack(begins).log_softmax(0).tolist()
    return found

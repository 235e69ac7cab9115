"""The embedded checkpoint fills unseen lines about as well as when it was committed.

The floor catches a broken sampler, constraint, healing or checkpoint, not a slightly worse one. Measure it again for a
new checkpoint.
"""

import statistics
from pathlib import Path

from inference.bench import infilling_tasks
from inference.bench.infilling import by_engine
from inference.engine import Engine

HELD_OUT = Path(__file__).parents[2] / "data" / "held_out.jsonl.gz"
TASKS = [task for task in infilling_tasks.read(HELD_OUT) if task.single_line][:40]
FLOOR = 0.42


def test_fills_come_near_the_truth(embedded: Engine) -> None:
    fills = [*map(by_engine(embedded), TASKS)]
    assert statistics.fmean(fill.edit_similarity for fill in fills) > FLOOR
    chosen = sum(fill.tokens for fill in fills)
    true = sum(len(embedded.loaded.vocabulary.encode(task.solution)) for task in TASKS)
    assert 0.5 * true < chosen < 1.8 * true, "lengths"

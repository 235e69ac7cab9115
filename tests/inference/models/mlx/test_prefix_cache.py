"""The prefix cache works with MLX's arrays as with torch's: all of its tests, on an MLX network."""

from pathlib import Path

import pytest
import torch

from inference.engine.engine import Engine
from inference.models import registry
from inference.models.mlx import weights
from inference.models.mlx.network import MlxDiffusionNetwork
from tests.inference.models.test_prefix_cache import (  # noqa: F401
    test_after_an_edit_the_cache_equals_a_fresh_one,
    test_many_edits_in_a_row_keep_equal_to_fresh,
    test_the_budget_holds_once_nobody_reads,
    test_the_least_recently_used_goes_first,
    test_two_writers_never_share_rows,
    test_who_reads_a_prefix_is_not_disturbed_by_an_edit_of_it,
)


@pytest.fixture(scope="module")
def network(random_folder: Path) -> MlxDiffusionNetwork:
    found = registry.open_checkpoint(str(random_folder))
    return MlxDiffusionNetwork(weights.load_model(found, "float32", on_gpu=False, progress=lambda _share, _what: None))


def test_it_predicts_what_transformers_predicts(released: Engine) -> None:
    """What the tests above compare with itself is right, too: canvases behind a prefix, one with rows that are none."""
    found = registry.load_model(released.loaded.adapter.name, device="mlx", dtype="float32")
    canvas, rows, valid = torch.arange(10, 30).view(2, 10), torch.arange(17), torch.ones(2, 10, dtype=torch.bool)
    valid[1, 7:] = False
    predicted = []
    for family in (found, released.loaded.adapter):
        context = family.open_prefix(range(6, 60))
        for _ in context.prefill():
            pass
        first = context.predict(canvas, rows, valid=valid)
        fed = context.self_conditioning(first, first.softmax(-1))
        predicted.append((first, context.predict(canvas, rows, valid=valid, feedback=fed)))
        context.close()
    torch.testing.assert_close(predicted[0], predicted[1], rtol=1e-3, atol=1e-3)

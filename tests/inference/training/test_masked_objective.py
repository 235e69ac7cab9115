"""What is masked, what carries loss, and who sees whom, with the objective of masked diffusion."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from inference.training import masked_corruption, masked_trunk, qwen2, run, tokenizer
from inference.training.batches import Batch, Batches, BatchShape
from inference.training.config import read
from inference.training.holes import TrainingDocument
from inference.training.masked_corruption import MaskedExamples
from inference.training.masked_objective import MaskedObjective
from inference.training.prompt_framing import NoFraming

_TOKENS = tokenizer.masked_tokens(600)
_ROWS = 96
_SHAPE = read(Path(run.__file__).parent / "configs" / "miniature-masked.toml").model


@pytest.fixture(scope="module")
def batch(documents: list[TrainingDocument], small_tokenizer: Tokenizer) -> Batch:
    """Sixteen streams with one canvas each."""
    return Batches(documents, small_tokenizer, _TOKENS, BatchShape(16, 64, 1, _ROWS), 1, NoFraming()).draw(0)


def examples(batch: Batch, causal_share: float, seed: int = 0) -> MaskedExamples:
    """Examples of `_ROWS` rows."""
    return masked_corruption.examples(batch, _TOKENS, _ROWS, causal_share, np.random.default_rng(seed))


def test_only_masked_rows_carry_loss_and_all_else_is_pinned(batch: Batch) -> None:
    """In every example, whatever is masked in it; nothing stands around the text."""
    for seed in range(5):
        drawn = examples(batch, 0.0, seed)
        masked = drawn.noisy == _TOKENS.mask
        assert np.array_equal(drawn.weights > 0, masked)
        assert np.array_equal(drawn.noisy[~masked], drawn.clean[~masked])
        assert not masked[np.arange(_ROWS) >= drawn.lengths[:, None]].any()
        real = drawn.clean[np.arange(_ROWS) < drawn.lengths[:, None]]
        assert (real >= _TOKENS.first_text).all()


def test_most_examples_mask_holes_alone_and_half_of_the_holes_whole(batch: Batch) -> None:
    """Rows outside holes are masked in the others alone."""
    drawn = [examples(batch, 0.0, seed) for seed in range(40)]
    masked = np.concatenate([one.noisy == _TOKENS.mask for one in drawn])
    hole = np.concatenate([_hole_rows(batch)] * 40)
    holes_alone = ~(masked & ~hole).any(1)
    assert 0.6 < holes_alone.mean() < 0.85
    assert 0.6 < masked[holes_alone][hole[holes_alone]].mean() < 0.85


def test_causal_examples_are_clean_and_carry_loss_in_every_row(batch: Batch) -> None:
    """All but the first, which nothing predicts."""
    drawn = examples(batch, 0.5)
    assert drawn.causal.sum() == 8
    real = np.arange(_ROWS) < drawn.lengths[:, None]
    assert np.array_equal(drawn.noisy[drawn.causal], drawn.clean[drawn.causal])
    assert np.array_equal(drawn.weights[drawn.causal][:, 1:] > 0, real[drawn.causal][:, 1:])
    assert not drawn.weights[:, 0].any()


@pytest.mark.parametrize("causal", [False, True])
def test_every_row_sees_every_row_unless_the_example_is_causal(causal: bool) -> None:
    """A later token changes an earlier row; padding changes nothing; as transformers computes it."""
    assert _SHAPE is not None
    model = qwen2.build(_SHAPE, 0, _TOKENS)
    ids = torch.randint(5, 600, (1, 12), generator=torch.Generator().manual_seed(0))
    mask = masked_trunk.visible(torch.tensor([10]), torch.tensor([causal]), 12)

    def rows(of: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return masked_trunk.run(model, of, mask, masked_trunk.rotary(model, 12))[0]

    later, padding = ids.clone(), ids.clone()
    later[0, 9], padding[0, 11] = 5, 5
    changed = (rows(later)[:9] - rows(ids)[:9]).abs().amax(1) > 1e-6
    assert changed.all() != causal
    assert changed.any() != causal
    assert torch.allclose(rows(padding)[:10], rows(ids)[:10])
    with torch.no_grad():
        expected = model.model(input_ids=ids, attention_mask=mask).last_hidden_state[0]
    assert torch.allclose(rows(ids)[:10], expected[:10], atol=1e-5)


def test_a_row_is_predicted_by_the_one_before_it(batch: Batch) -> None:
    """Logits are shifted, and each row has the weight it was drawn with."""
    assert _SHAPE is not None
    drawn, model = examples(batch, 0.25), qwen2.build(_SHAPE, 0, _TOKENS)
    objective = MaskedObjective(model, 1.0, autocast=False, compiled=False)
    inputs = objective.inputs(drawn)
    total, losses = objective.loss(inputs, conditioned=False)
    with torch.no_grad():
        hidden = model.model(input_ids=inputs.noisy, attention_mask=inputs.mask).last_hidden_state
        expected = torch.nn.functional.cross_entropy(
            model.lm_head(hidden[:, :-1]).flatten(0, 1), torch.tensor(drawn.clean)[:, 1:].flatten(), reduction="none"
        ).view(16, -1)
    weights = torch.tensor(drawn.weights)[:, 1:]
    assert total.item() == pytest.approx(float((expected * weights).sum() / weights.sum()), abs=1e-4)
    masked = torch.tensor(drawn.noisy == _TOKENS.mask)[:, 1:]
    assert losses.text == pytest.approx(float(expected[masked].mean()), abs=1e-4)


def test_rows_beyond_those_that_can_carry_loss_are_left_out(batch: Batch) -> None:
    """And there are always as many: compiled code keeps its shapes."""
    assert _SHAPE is not None
    objective = MaskedObjective(qwen2.build(_SHAPE, 0, _TOKENS), 0.1, autocast=False, compiled=False)
    for share in (0.0, 1.0):
        inputs = objective.inputs(examples(batch, share))
        assert len(inputs.rows) == int(0.1 * 16 * _ROWS)
        assert (inputs.weights > 0).all()


def _hole_rows(batch: Batch) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """(B, L): the rows of holes in examples of `_ROWS` rows."""
    rows = np.zeros((16, _ROWS), bool)
    for number, split in enumerate(batch.splits[:, 0]):
        rows[number, split:] = batch.hole[number, 0, : _ROWS - split]
    return rows

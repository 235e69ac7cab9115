"""The parts of a step, each against its definition."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.canvas.batch import FORBIDDEN
from inference.engine.search import denoise
from inference.models.properties import SamplerSettings

ENTROPIES = st.lists(st.floats(0, 5, width=32), min_size=1, max_size=12)


@given(entropies=ENTROPIES, bound=st.floats(0.01, 4))
def test_accepted_rows_are_the_surest_within_the_bound(entropies: list[float], bound: float) -> None:
    row = torch.tensor([entropies])
    accepted = denoise.accept(row, bound)[0]
    kept = sorted(row[0][accepted].tolist())
    dropped = row[0][~accepted].tolist()
    assert kept
    assert sum(kept) - max(kept) <= bound + 1e-4
    assert all(entropy >= max(kept) for entropy in dropped)


def test_rows_that_are_not_there_are_never_accepted() -> None:
    accepted = denoise.accept(torch.tensor([[0.1, float("inf")], [0.2, 0.1]]), 10.0, torch.tensor([2.0, 2.0]))
    assert accepted.tolist() == [[True, False], [True, True]]


def test_the_floor_accepts_more_than_the_bound_allows() -> None:
    entropies = torch.tensor([[3.0, 1.0, 2.0, 4.0]])
    assert int(denoise.accept(entropies, 0.1).sum()) == 1
    assert denoise.accept(entropies, 0.1, torch.tensor([3.0])).tolist() == [[True, True, True, False]]


def test_entropy_is_that_of_the_distribution() -> None:
    logits = torch.randn(7, 50) * 4
    expected = torch.distributions.Categorical(logits=logits).entropy()
    torch.testing.assert_close(denoise.entropy(logits, logits.softmax(-1)), expected, rtol=1e-4, atol=1e-4)
    forbidden = torch.tensor([[1.0, 1.0, FORBIDDEN]])
    torch.testing.assert_close(denoise.entropy(forbidden, forbidden.softmax(-1)), torch.tensor([2.0]).log())


def test_the_temperature_falls_from_first_to_last_step() -> None:
    settings = SamplerSettings(t_max=0.8, t_min=0.4)
    values = [float(denoise.temperature(settings, left, 8)) for left in range(8, 0, -1)]
    assert values == sorted(values, reverse=True)
    assert abs(values[0] - 0.8) < 1e-6
    assert values[-1] > 0.4


def test_confidence_is_the_mean_or_sum_over_rows_there() -> None:
    entropies, counts = torch.tensor([[0.1, float("inf")], [0.1, 0.5]]), torch.tensor([1, 2])
    for settings in (SamplerSettings(confidence=0.2), SamplerSettings(confidence=0.0, total_entropy=0.5)):
        assert denoise.confident(entropies, counts, settings).tolist() == [True, False]


def test_tokens_are_drawn_as_often_as_they_are_probable() -> None:
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    points = denoise.random_points(20_000, torch.Generator().manual_seed(0))
    drawn = denoise.draw(probabilities.expand(20_000, -1), points)
    shares = torch.bincount(drawn, minlength=6) / len(drawn)
    assert shares[probabilities == 0].sum() == 0
    torch.testing.assert_close(shares, probabilities, rtol=0, atol=0.02)


def test_a_certain_token_is_always_drawn() -> None:
    rows = torch.eye(50).repeat(40, 1)
    points = denoise.random_points(len(rows), torch.Generator().manual_seed(1))
    assert torch.equal(denoise.draw(rows, points), torch.arange(50).repeat(40))

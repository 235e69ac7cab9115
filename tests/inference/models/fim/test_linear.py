"""Products of 8-bit weights: a row's are the same, bit for bit, alone and among others, and near those in float32."""

import warnings

import pytest
import torch

from inference.models.llama import linear
from inference.models.llama.linear import Int8DynamicLinear, Int8Weight, Int8WeightOnlyLinear, quantise_rows

WIDE, HIGH = 896, 1152


@pytest.fixture(scope="module")
def packed() -> Int8Weight:
    torch.manual_seed(0)
    return Int8Weight(*quantise_rows(torch.randn(HIGH, WIDE) * torch.rand(HIGH, 1)))


def rows_of(count: int) -> torch.Tensor:
    """(count, WIDE): one row of zeros, one with a huge value, one of tiny values."""
    rows = torch.randn(count, WIDE) * (10 ** torch.linspace(-3, 3, count))[:, None]
    rows[1], rows[2, 7], rows[3] = 0.0, 1e30, 1e-20
    return rows


def error(found: torch.Tensor, packed: Int8Weight, rows: torch.Tensor) -> float:
    """The largest error of a product, as a share of the largest product of its row."""
    wanted = rows.double() @ packed.rows(torch.arange(HIGH)).double().T
    return float(((found.double() - wanted).abs().amax(1) / wanted.abs().amax(1).clamp(min=1e-60)).max())


@pytest.mark.parametrize(("fine", "groups", "most"), [(False, 1, 0.05), (False, 4, 0.05), (True, 1, 5e-4)])
def test_a_row_has_the_same_products_alone_and_among_others(
    packed: Int8Weight, fine: bool, groups: int, most: float
) -> None:
    if not linear.has_dynamic_int8():
        pytest.skip("this processor has no such products")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = Int8DynamicLinear(packed, fine=fine, groups=groups)
        rows = rows_of(301)
        together, added = matrix(rows), torch.randn(301, HIGH)
        assert error(together, packed, rows) < most
        assert not together[1].any()
        for first, count in ((0, 1), (1, 1), (2, 1), (3, 1), (299, 1), (0, 2), (17, 3), (0, 17), (5, 64)):
            assert torch.equal(matrix(rows[first : first + count]), together[first : first + count])
            few = matrix(rows[first : first + count], added[first : first + count])
            assert torch.equal(few, matrix(rows, added)[first : first + count])


def test_products_of_the_largest_values_do_not_overflow() -> None:
    if not linear.has_dynamic_int8():
        pytest.skip("this processor has no such products")
    packed = Int8Weight(*quantise_rows(torch.ones(HIGH, WIDE)))
    for rows in (torch.ones(1, WIDE), -torch.ones(70, WIDE)):
        assert error(Int8DynamicLinear(packed)(rows), packed, rows) < 1e-6


def test_other_processors_have_the_same_products_in_few_rows(packed: Int8Weight) -> None:
    rows = rows_of(300)
    for dtype, most in ((torch.bfloat16, 16), (torch.float32, 256)):
        matrix = Int8WeightOnlyLinear(packed, torch.empty(1 << 21, dtype=dtype))
        for first in (0, 1, 2, 20):
            few = rows[first : first + most]
            together = matrix(few)
            assert error(together, packed, few) < 0.03
            assert torch.equal(together, torch.cat([matrix(row[None]) for row in few]))
        assert error(matrix(rows), packed, rows) < 0.03

"""A faster pass is used only if it gives the same result; otherwise the log says so."""

import pytest
import torch

from inference.models.diffusion_gemma import recorded
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.recorded import CudaGraphs, RecordedNetwork
from tests.inference.models.random_model import AsItIs, random_model
from tests.inference.models.stock_network import StockNetwork


def test_agreeing_fast_pass_is_used_silently(caplog: pytest.LogCaptureFixture) -> None:
    plain = StockNetwork(random_model())
    for faster in (Network(plain.model), RecordedNetwork(plain.model, AsItIs())):
        assert recorded.verified(lambda faster=faster: faster, plain) is faster  # type: ignore[misc]
    assert not caplog.records


def test_what_differs_is_left_out_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    plain = StockNetwork(random_model())
    no_number = random_model()
    no_number.model.decoder.layers[-1].layer_scalar.fill_(torch.nan)
    for other in (random_model(seed=1), no_number):
        caplog.clear()
        assert recorded.verified(lambda other=other: Network(other), plain) is plain  # type: ignore[misc]
        assert "Network differs from StockNetwork and is not used" in caplog.text


def test_difference_in_prefix_or_canvas_is_found() -> None:
    """Each of the two stacks has a scalar of its own for each layer; all else is shared."""
    for stack in ("encoder", "decoder"):
        other = random_model()
        layers = other.model.decoder.layers if stack == "decoder" else other.model.encoder.language_model.layers
        layers[0].layer_scalar.fill_(1.1)
        assert recorded.difference(Network(other), Network(random_model())) > 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device can record")
def test_what_cannot_run_is_left_out_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    plain = Network(random_model())
    assert recorded.verified(lambda: RecordedNetwork(plain.model, CudaGraphs()), plain) is plain
    assert "cannot run here and is not used" in caplog.text

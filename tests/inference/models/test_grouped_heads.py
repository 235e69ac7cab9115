"""Query heads share keys and values: no pass copies them for each head."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from inference.models.diffusion_gemma.recorded import RecordedNetwork
from tests.inference.models.random_model import VOCABULARY_SIZE, AsItIs, random_model

PREFIX_TOKENS = 700
"""So many that an expanded copy of the keys is the largest tensor of a pass by far."""
HEADS, CANVAS_TOKENS = 16, 4

KINDS: list[Callable[[Any], Network]] = [
    Network,
    lambda model: RecordedNetwork(model, AsItIs()),
]
RATIOS = [1, 8]
"""Query heads for each key head of a full layer."""


class LargestTensor(TorchDispatchMode):
    """Notes the most elements of any tensor that is made with memory of its own."""

    elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple | list) else [result]:
            if isinstance(made, Tensor):
                self.elements = max(self.elements, made.untyped_storage().nbytes() // made.element_size())
        return result


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("number", range(len(KINDS)), ids=["plain", "fixed shapes"])
def test_keys_and_values_are_not_copied_per_head(ratio: int, number: int) -> None:
    """What is computed is compared in test_parity.py and test_recorded.py."""
    network = KINDS[number](random_model(experts=1, heads=HEADS, global_key_heads=HEADS // ratio))
    ids = torch.randint(0, VOCABULARY_SIZE, (1, PREFIX_TOKENS + 9))
    prefix = PrefixCache(network, 0).acquire([])
    network.encode(ids[:, :-9], prefix)
    prefix.commit(ids[0, :-9].tolist())
    once = max(layer.keys.numel() for layer in prefix.view().layers)
    with LargestTensor() as largest:
        network.encode(ids[:, -9:], prefix)
    assert largest.elements <= 2 * once, f"{largest.elements / once:.1f} times the keys of a layer behind a prefix"
    prefix.commit(ids[0, -9:].tolist())
    canvas = torch.randint(0, VOCABULARY_SIZE, (1, CANVAS_TOKENS))
    for shown in (None, torch.arange(CANVAS_TOKENS)[None] < CANVAS_TOKENS - 3):
        network.decode(canvas, None, prefix.view(), shown)  # what is kept from step to step is made now
        with LargestTensor() as largest:
            network.decode(canvas, None, prefix.view(), shown)
        assert largest.elements < 2 * once, f"{largest.elements / once:.1f} times the keys of a layer in a canvas"

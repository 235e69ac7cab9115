"""Chooses a network of this family: the fastest for the device whose results match transformers' layers.

Each faster network is compared with the one it would replace, on a few rows and with the model's weights. One that
differs or cannot run is skipped and logged: the model is then slower but correct.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inference.models.devices import native_bfloat16
from inference.models.diffusion_gemma.fused import FusedNetwork
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.packed import PackedNetwork
from inference.models.diffusion_gemma.passes import PrefixView
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from inference.models.diffusion_gemma.static_shapes import RecordedNetwork

_TOLERANCE = {torch.float32: 1e-4}
_HALF_TOLERANCE = 0.05
"""By the dtype of its products, the allowed error of a faster pass: |difference| / |plainer|."""

_TRIAL_ROWS = 27
"""A multiple of nothing, so that rows padding a shape would show."""

log = logging.getLogger(__name__)


def fastest(model: Any, *, exact: bool = True) -> Network:
    """The network of a loaded model; unless `exact`, a capable CPU multiplies canvas rows in bfloat16."""
    plain = Network(model)
    if plain.device.type == "cuda":
        model.set_experts_implementation("grouped_mm")  # the stock loop visits each expert from Python
    fused = verified(lambda: FusedNetwork(model), plain)
    if plain.device.type == "cuda":
        return verified(lambda: RecordedNetwork(model), fused)
    if PackedNetwork.suits(plain):
        products = torch.bfloat16 if not exact and native_bfloat16() else torch.float32
        return verified(lambda: PackedNetwork(model, products), fused)
    return fused


def verified(make: Callable[[], Network], plainer: Network) -> Network:
    """The network that `make` makes if its results match the plainer one's; otherwise the plainer one."""
    try:
        faster = make()
        worst = difference(faster, plainer)
    except Exception as error:  # a device may refuse, and another transformers release may differ
        log.warning("a faster pass cannot run here and is not used: %s", (str(error).splitlines() or [repr(error)])[0])
        return plainer
    if worst <= 1.0:
        return faster
    name = type(faster).__name__
    log.warning("%s differs from %s and is not used: %.1f times more than allowed", name, type(plainer).__name__, worst)
    return plainer


@torch.inference_mode()
def difference(faster: Network, plainer: Network) -> float:
    """How much two networks differ on a few rows, relative to the limit: above 1 is too much."""
    ids = (torch.arange(_TRIAL_ROWS, device=plainer.device) * 7)[None] % plainer.vocabulary_size
    (found, hidden), (wanted, plain_hidden) = _encoded(faster, ids), _encoded(plainer, ids)
    parts = [_in_parts(hidden, plain_hidden, plainer.dtype)]
    faster.decode(ids, None, found)
    while faster.prepare():
        pass
    for soft in (None, plainer.token_embeddings(ids.flip(1))):
        decoded = plainer.decode(ids, soft, wanted)
        parts.append(_in_parts(faster.decode(ids, soft, found), decoded, faster.canvas_dtype))
    logits = plainer.canvas_logits(decoded[0])
    parts.append(_in_parts(faster.canvas_logits(decoded[0]), logits, faster.canvas_dtype))
    given = logits, logits.softmax(-1)
    signals = faster.expected_embeddings(*given), plainer.expected_embeddings(*given)
    parts.append(_in_parts(*signals, faster.canvas_dtype))
    return float(torch.tensor(parts).max())  # not a number where one of them is none


def _encoded(network: Network, ids: Tensor) -> tuple[PrefixView, Tensor]:
    """A prefix (1, n) as a decoder reads it, and the hidden states (1, n, d) of its tokens."""
    prefix = PrefixCache(network, 0).acquire([])
    hidden = network.encode(ids, prefix)
    prefix.commit(ids[0].tolist())
    return prefix.view(), hidden


def _in_parts(found: Tensor, wanted: Tensor, products: torch.dtype) -> float:
    distance = float((found.float() - wanted.float()).norm() / wanted.float().norm())
    return distance / _TOLERANCE.get(products, _HALF_TOLERANCE)

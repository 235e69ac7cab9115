"""The adapter that judges next edits, in the package, and the network it belongs to.

`python -m inference.training.next_edit` trains it. It is for the weights of one model, whatever format these are in:
that model's norms, which no format rounds, are its fingerprint.
"""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from inference.models.fim.matrices import Adapted
from inference.models.fim.network import FastLayer, Network

KEPT_BYTES = 8 << 20
"""How much of the judged prompts to keep: their common beginning."""
FILE = Path(__file__).with_name("next_edit.safetensors")
MATRICES = ("queries_keys_values", "out", "gate_up", "down")
"""The matrices of a layer that have adapters, as `FastLayer` names them."""


def fingerprint(network: Network) -> str:
    """The SHA-256 of all norms in float32, in hexadecimal."""
    norms = [*(norm for layer in network.layers for norm in (layer.norm, layer.mlp_norm)), network.norm]
    return hashlib.sha256(b"".join(norm.float().cpu().numpy().tobytes() for norm in norms)).hexdigest()


def adapted(network: Network, file: Path = FILE) -> Network:
    """The network with the adapter in `file`, sharing its weights; the network itself if that is for another model."""
    with safe_open(file, framework="pt", device=str(network.device)) as adapter:
        if (adapter.metadata() or {}).get("base") != fingerprint(network):
            return network
        tensors = {name: adapter.get_tensor(name).float() for name in adapter.keys()}  # noqa: SIM118
    layers = [_with(layer, number, tensors) for number, layer in enumerate(network.layers)]
    return Network(network.config, layers, network.embedding, network.norm, network.head)


def _with(layer: FastLayer, number: int, tensors: dict[str, Tensor]) -> FastLayer:
    made: dict[str, Any] = {}
    for name in MATRICES:
        down, up = (tensors.get(tensor_name(number, name, side)) for side in ("down", "up"))
        if down is not None and up is not None:
            made[name] = Adapted(getattr(layer, name), down, up)
    return replace(layer, **made)


def tensor_name(layer: int, matrix: str, side: str) -> str:
    """How the file names one of the two thin matrices, `side` "down" or "up"."""
    return f"lora_{layer}_{matrix}_{side}"

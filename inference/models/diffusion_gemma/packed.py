"""Both passes in fewer and larger operations (packed_layer.py), for small models on a CPU.

Canvas passes multiply in bfloat16 if the CPU can, three to four times faster; sums, norms and the soft-max stay in
float32, and so does the prefix, with the likelihoods that rank candidates. Shapes: B batch, W rows of each, D head
size, d hidden size, V vocabulary size.
"""

import math
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.models.diffusion_gemma import packed_layer
from inference.models.diffusion_gemma.continued_prefix import ScoringCache
from inference.models.diffusion_gemma.fused import FusedNetwork, rms_norm
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.packed_layer import PackedLayer, See, Seen, gated, joined, run_layer, times, unit
from inference.models.diffusion_gemma.passes import EncoderCache, LayerView, PrefixView


class PackedNetwork(FusedNetwork):
    """A network whose passes consist of fewer and larger products."""

    def __init__(self, model: Any, products: torch.dtype) -> None:
        """`products`: the dtype for multiplying the matrices of canvas passes."""
        super().__init__(model)
        self.canvas_dtype = products
        self._canvas_layers = _all_packed(self._decoder, self.layer_types, products)
        self._prefix_layers = _all_packed(self._encoder, self.layer_types, torch.float32)
        signal = self._decoder.self_conditioning
        self._signal_floor = packed_layer.floor_of(self.hidden_size, signal.pre_norm.eps)
        factor = math.sqrt(self.hidden_size)
        parts = [part.weight * signal.pre_norm.weight * factor for part in (signal.gate_proj, signal.up_proj)]
        self._signal_in, self._signal_out = joined(parts, products), joined([signal.down_proj.weight], products)
        self._head = model.lm_head.weight.detach().to(products)  # (V, d), the tied embedding; no copy in float32
        self._turned = 0
        self._table: dict[str, Tensor] = {}
        self._prefix: tuple[weakref.ref[PrefixView], list[LayerView]] | None = None

    @classmethod
    def suits(cls, network: Network) -> bool:
        """Whether a network's passes can be packed: one expert, float32, on a CPU."""
        experts = max(layer.experts.num_experts for layer in network.model.model.decoder.layers)
        return network.device.type == "cpu" and network.dtype == torch.float32 and experts == 1

    @torch.inference_mode()
    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """The same as `Network.encode`, to rounding."""
        past, new = cache.length, ids.shape[1]
        hidden = self._encoder.embed_tokens(ids)
        turns = self._turns(self._encoder, past, new)
        masks = {kind: None if new == 1 else self.causal_mask(past, new, kind) for kind in turns}
        for number, layer in enumerate(self._prefix_layers):
            hidden = run_layer(layer, hidden, turns[layer.kind], masks[layer.kind], _remembered(cache, number))
        return rms_norm(self._encoder.norm, hidden)

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The same as `Network.decode`, to rounding."""
        hidden = self._conditioned(self._decoder.embed_tokens(canvas), soft)
        turns = self._turns(self._decoder, prefix.length, canvas.shape[1])
        mask_of = self.canvas_mask(valid, prefix.length)
        for layer, past in zip(self._canvas_layers, self._rows(prefix), strict=True):
            hidden = run_layer(layer, hidden, turns[layer.kind], mask_of(layer.kind), _behind(past))
        return rms_norm(self._decoder.norm, hidden)

    def _turns(self, stack: Any, past: int, new: int) -> dict[str, Tensor]:
        """(1, new, 1, D / 2) complex for each kind of layer: the rotation of the heads at these positions."""
        end = past + new
        if end > self._turned:
            self._turned = min(self.max_positions, max(end, 2 * self._turned))
            positions, like = torch.arange(max(end, self._turned))[None], torch.empty(0)
            for kind in set(self.layer_types):
                cosine, sine = (part.chunk(2, -1)[0] for part in stack.rotary_emb(like, positions, kind))
                self._table[kind] = torch.complex(cosine, sine)[:, :, None]
        return {kind: table[:, past:end] for kind, table in self._table.items()}

    def _conditioned(self, embedded: Tensor, soft: Tensor | None) -> Tensor:
        """(B, W, d) embeddings and self-conditioning signal -> the first layer's input. No signal adds nothing."""
        if soft is not None:
            inner = gated(times(unit(soft, self._signal_floor), self._signal_in))
            embedded = embedded + times(inner, self._signal_out)
        return rms_norm(self._decoder.self_conditioning.post_norm, embedded)

    def _rows(self, prefix: PrefixView) -> list[LayerView]:
        """The prefix in the dtype of the products; converted once, because all steps read the same view."""
        if self._prefix is None or self._prefix[0]() is not prefix:
            to = self.canvas_dtype
            rows = [LayerView(layer.keys.to(to), layer.values.to(to)) for layer in prefix.layers]
            self._prefix = (weakref.ref(prefix), rows)
        return self._prefix[1]

    @torch.inference_mode()
    def canvas_logits(self, hidden: Tensor) -> Tensor:
        """The same as `Network.canvas_logits`, to rounding."""
        return self._capped(F.linear(hidden.to(self.canvas_dtype), self._head))

    @torch.inference_mode()
    def expected_embeddings(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """The same as `Network.expected_embeddings`, to rounding."""
        expected = (probabilities.to(self.canvas_dtype) @ self._head).float()
        return expected * self._decoder.embed_tokens.embed_scale  # type: ignore[no-any-return]


def _remembered(cache: EncoderCache, number: int) -> See:
    """The encoder appends to its cache."""
    if not isinstance(cache, ScoringCache):
        return lambda keys, values: Seen(*cache.update(keys, values, number))
    shared = cache.prefix_layers[number]

    def seen(keys: Tensor, values: Tensor) -> Seen:
        own = cache.append(keys, values, number)
        return Seen(own.keys, own.values, shared)

    return seen


def _behind(past: LayerView) -> See:
    """The decoder reads the prefix without changing it."""
    return lambda keys, values: Seen(torch.cat([past.keys, keys], 2), torch.cat([past.values, values], 2))


def _all_packed(stack: Any, kinds: Sequence[str], products: torch.dtype) -> list[PackedLayer]:
    return [packed_layer.packed(layer, kind, products) for layer, kind in zip(stack.layers, kinds, strict=True)]

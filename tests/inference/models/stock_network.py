"""The passes by transformers' own layers, which ours must equal."""

from typing import Any

import torch
from torch import Tensor

from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.passes import LayerView, Masks, PrefixView


class StockView(PrefixView):
    """A prefix as transformers' decoder layers read it."""

    is_compileable = False


class StockNetwork(Network):
    def _conditioned(self, embedded: Tensor, soft: Tensor | None) -> Tensor:
        """(B, W, d) embeddings and self-conditioning signal -> the input of the decoder's first layer."""
        signal = torch.zeros_like(embedded) if soft is None else soft
        return self._decoder.self_conditioning(embedded, signal)  # type: ignore[no-any-return]

    def _run(self, stack: Any, hidden: Tensor, positions: Tensor, masks: Masks, cache: Any) -> Tensor:
        """The layers of the encoder, which write into `cache`, or of the decoder, which read it; and the last norm."""
        if stack is self._decoder:
            sizes = (len(hidden), -1, -1, -1)
            layers = [LayerView(one.keys.expand(sizes), one.values.expand(sizes)) for one in cache.layers]
            cache = StockView(layers, cache.length, cache.rows)
        rotary = {kind: stack.rotary_emb(hidden, positions, kind) for kind in set(self.layer_types)}
        for layer, kind in zip(stack.layers, self.layer_types, strict=True):
            hidden = layer(
                hidden,
                position_embeddings=rotary[kind],
                attention_mask=masks[kind],
                position_ids=positions,
                past_key_values=cache,
            )
        return stack.norm(hidden)  # type: ignore[no-any-return]

"""First weights of a Qwen2 from a small DiffusionGemma, so that training need not start from nothing.

Both are the same kind of network, but Qwen2 normalises less. Each of DiffusionGemma's further norms is replaced by a
constant, what it divides by on average over some text; expert and MLP become one MLP. Then, layer by layer, what writes
to the residual stream is fitted by least squares to what DiffusionGemma's stream holds there, over the same text. What
comes out reads a text from left to right nearly as well. Biases start at zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import DiffusionGemmaForBlockDiffusion

from inference.training import masked_trunk
from inference.training.corpus import SourceFile

_STREAM_SCALE = 8.0
"""What embeddings are multiplied with; DiffusionGemma does so on the way, by the root of the hidden size."""

_SILU_FOR_GELU = 1.702
"""gelu(x) is nearly silu(1.702 x) / 1.702."""

_TEXTS, _TEXT_TOKENS = 128, 256
_RIDGE = 1e-3
"""How much the fit prefers the weights that are there, as a share of the mean square of what they are applied to."""


def begin(model: Any, folder: Path, files: Sequence[SourceFile]) -> None:
    """Gives a Qwen2 the weights. Raises KeyError or RuntimeError where the folder holds another shape.

    It shares the tokenizer.
    """
    source: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32)
    ids = _text(folder / "tokenizer.json", files)
    inner = _STREAM_SCALE / model.config.hidden_size**0.5  # of our residual stream, where DiffusionGemma's is 1
    with torch.no_grad():
        seen = _Recorded.of(source, ids)
        for name, value in _folded(source, model.config, seen.sizes, inner).items():
            model.get_parameter(name).copy_(value)
        _fit(model, ids, seen, inner)


def _text(tokenizer_file: Path, files: Sequence[SourceFile]) -> Tensor:
    """(B, L) tokens of training files, all of them text."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    texts = [file.text for file in files if not file.held_out]
    found = [tokenizer.encode(text[len(text) // 3 :][: 12 * _TEXT_TOKENS]).ids[:_TEXT_TOKENS] for text in texts]
    whole = [ids for ids in found if len(ids) == _TEXT_TOKENS]
    return torch.tensor(whole[:: max(1, len(whole) // _TEXTS)][:_TEXTS])


@dataclass(frozen=True)
class _Recorded:
    """What DiffusionGemma's encoder makes of a text, by layer, and what each of its norms divides by on average."""

    attended: dict[int, Tensor] = field(default_factory=dict)  # (B, L, d): the stream behind attention
    finished: dict[int, Tensor] = field(default_factory=dict)  # (B, L, d): behind the layer
    sizes: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Any, ids: Tensor) -> "_Recorded":
        recorded, encoder = cls(), source.model.encoder.language_model
        for number, layer in enumerate(encoder.layers):
            layer.register_forward_hook(
                lambda _, __, output, at=number: recorded.finished.__setitem__(
                    at, output[0] if isinstance(output, tuple) else output
                )
            )
            layer.pre_feedforward_layernorm.register_forward_hook(
                lambda _, inputs, __, at=number: recorded.attended.__setitem__(at, inputs[0])
            )
        for name, module in encoder.named_modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.register_forward_hook(
                    lambda _, inputs, __, at=name: recorded.sizes.__setitem__(
                        at, float(inputs[0].pow(2).mean(-1).sqrt().mean())
                    )
                )
        encoder(input_ids=ids)
        return recorded


def _fit(model: Any, ids: Tensor, seen: _Recorded, inner: float) -> None:
    """Fits the projections that write to the stream, each to what is missing there, errors before it included."""
    batch, rows = ids.shape
    mask = masked_trunk.visible(torch.full((batch,), rows), torch.ones(batch, dtype=torch.bool), rows)
    rope, hidden = masked_trunk.rotary(model, rows), model.model.embed_tokens(ids)
    for number, layer in enumerate(model.model.layers):
        mixed = masked_trunk.mixed(layer.self_attn, layer.input_layernorm(hidden), rope, mask)
        _solve(layer.self_attn.o_proj, mixed, seen.attended[number] * inner - hidden)
        hidden = hidden + layer.self_attn.o_proj(mixed)
        prepared, mlp = layer.post_attention_layernorm(hidden), layer.mlp
        gated = mlp.act_fn(mlp.gate_proj(prepared)) * mlp.up_proj(prepared)
        _solve(mlp.down_proj, gated, seen.finished[number] * inner - hidden)
        hidden = hidden + mlp.down_proj(gated)


def _solve(linear: Any, given: Tensor, wanted: Tensor) -> None:
    """Ridge regression (B, L, i) -> (B, L, o) towards the weight that `linear` has."""
    rows, targets = given.flatten(0, 1).double(), wanted.flatten(0, 1).double()
    square = rows.T @ rows
    ridge = _RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=torch.double)
    solved = torch.linalg.solve(square + ridge, rows.T @ targets + ridge @ linear.weight.T.double())
    linear.weight.copy_(solved.T)


def _folded(source: Any, config: Any, sizes: Mapping[str, float], inner: float) -> dict[str, Tensor]:
    """The weights by Qwen2's names, with constants for the norms that it lacks."""
    decoder = source.model.decoder
    found = {
        "model.embed_tokens.weight": decoder.embed_tokens.weight * _STREAM_SCALE,
        "model.norm.weight": decoder.norm.weight / _STREAM_SCALE,
    }
    for number, layer in enumerate(decoder.layers):
        at = f"layers.{number}"
        parts = _attention(layer, sizes, at, config, inner) | _mlp(layer, sizes, at, inner)
        found |= {f"model.{at}.{name}": one for name, one in parts.items()}
    return found


def _attention(layer: Any, sizes: Mapping[str, float], at: str, config: Any, inner: float) -> dict[str, Tensor]:
    own, size = layer.self_attn, layer.self_attn.head_dim
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    values = own.k_proj.weight if own.v_proj is None else own.v_proj.weight
    queries = own.q_proj.weight * own.q_norm.weight.repeat(heads)[:, None] / sizes[f"{at}.self_attn.q_norm"]
    keys = own.k_proj.weight * own.k_norm.weight.repeat(heads)[:, None] / sizes[f"{at}.self_attn.k_norm"]
    values = values / sizes[f"{at}.self_attn.v_norm"]
    output = own.o_proj.weight * layer.post_attention_layernorm.weight[:, None]

    def shared(by_head: Tensor) -> Tensor:  # heads that share keys and values get their mean
        return by_head.view(groups, -1, size, by_head.shape[1]).mean(1).flatten(0, 1)

    return {
        "input_layernorm.weight": layer.input_layernorm.weight,
        "self_attn.q_proj.weight": queries * size**0.5,
        "self_attn.q_proj.bias": torch.zeros(heads * size),
        "self_attn.k_proj.weight": shared(keys),
        "self_attn.k_proj.bias": torch.zeros(groups * size),
        "self_attn.v_proj.weight": shared(values),
        "self_attn.v_proj.bias": torch.zeros(groups * size),
        "self_attn.o_proj.weight": output * inner / sizes[f"{at}.post_attention_layernorm"],
    }


def _mlp(layer: Any, sizes: Mapping[str, float], at: str, inner: float) -> dict[str, Tensor]:
    """MLP and expert side by side: Qwen2's is as wide as both together."""
    gate, up = layer.experts.gate_up_proj[0].chunk(2)
    before, beside = layer.pre_feedforward_layernorm.weight, layer.pre_feedforward_layernorm_2.weight
    dense = layer.mlp.down_proj.weight * layer.post_feedforward_layernorm_1.weight[:, None]
    routed = (
        layer.experts.down_proj[0]
        * layer.router.per_expert_scale[0]
        * layer.post_feedforward_layernorm_2.weight[:, None]
    )
    down = torch.cat(
        [
            dense / sizes[f"{at}.post_feedforward_layernorm_1"],
            routed / sizes[f"{at}.post_feedforward_layernorm_2"],
        ],
        1,
    )
    down = down * layer.post_feedforward_layernorm.weight[:, None] / sizes[f"{at}.post_feedforward_layernorm"]
    return {
        "post_attention_layernorm.weight": torch.ones_like(before),
        "mlp.gate_proj.weight": torch.cat([layer.mlp.gate_proj.weight * before, gate * beside]) * _SILU_FOR_GELU,
        "mlp.up_proj.weight": torch.cat([layer.mlp.up_proj.weight * before, up * beside]),
        "mlp.down_proj.weight": down * inner / _SILU_FOR_GELU,
    }

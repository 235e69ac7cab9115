"""First weights of a Qwen2 from a small DiffusionGemma, so that training need not start from nothing.

Both are the same kind of network, but Qwen2 normalises less. Each of DiffusionGemma's further norms is replaced by a
constant, what it divides by on average over some text; expert and MLP become one MLP. What comes out is a poor copy that
learns much faster than random weights. Biases start at zero.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import DiffusionGemmaForBlockDiffusion

from inference.training.corpus import SourceFile

_STREAM_SCALE = 8.0
"""What embeddings are multiplied with; DiffusionGemma does so on the way, by the root of the hidden size."""

_SILU_FOR_GELU = 1.702
"""gelu(x) is nearly silu(1.702 x) / 1.702."""

_TEXTS, _TEXT_TOKENS = 16, 256


def weights(folder: Path, config: Any, files: Sequence[SourceFile]) -> dict[str, Tensor]:
    """The weights by Qwen2's names. Raises KeyError where the folder holds another shape; it shares the tokenizer."""
    model: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32)
    sizes = _norm_sizes(model, folder / "tokenizer.json", files)
    decoder = model.model.decoder
    inner = _STREAM_SCALE / config.hidden_size**0.5  # of our residual stream, where DiffusionGemma's is 1
    found = {
        "model.embed_tokens.weight": decoder.embed_tokens.weight * _STREAM_SCALE,
        "model.norm.weight": decoder.norm.weight / _STREAM_SCALE,
    }
    for number, layer in enumerate(decoder.layers):
        parts = _attention(layer, sizes, f"layers.{number}", config, inner) | _mlp(
            layer, sizes, f"layers.{number}", inner
        )
        found |= {f"model.layers.{number}.{name}": one for name, one in parts.items()}
    return {name: one.detach().contiguous() for name, one in found.items()}


def _norm_sizes(model: Any, tokenizer_file: Path, files: Sequence[SourceFile]) -> dict[str, float]:
    """What each norm divides by, the mean over some training text, by the norm's name inside the trunk."""
    encoder, sums = model.model.encoder.language_model, dict[str, list[float]]()

    def record(name: str) -> Any:
        def hook(_module: Any, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
            sums.setdefault(name, []).append(float(inputs[0].pow(2).mean(-1).sqrt().mean()))

        return hook

    norms = {name: one for name, one in encoder.named_modules() if type(one).__name__.endswith("RMSNorm")}
    hooks = [one.register_forward_hook(record(name)) for name, one in norms.items()]
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    texts = [file.text for file in files if not file.held_out]
    with torch.no_grad():
        for text in texts[:: max(1, len(texts) // _TEXTS)]:
            ids = tokenizer.encode(text[: 8 * _TEXT_TOKENS]).ids[:_TEXT_TOKENS]
            encoder(input_ids=torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return {name: sum(found) / len(found) for name, found in sums.items()}


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

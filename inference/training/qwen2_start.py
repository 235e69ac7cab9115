"""First weights of a Qwen2 from a small DiffusionGemma that fills masks, so that training need not start from nothing.

The weights are carried over (qwen2_fold.py). Layer by layer, what writes to the residual stream is then fitted by least
squares to what DiffusionGemma's stream holds there, over texts with masks; and all of it is trained to have the same
states (qwen2_match.py). DiffusionGemma predicts a token in its own row, this Qwen2 in the row before it: one more layer
moves each row's state there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DiffusionGemmaForBlockDiffusion

from inference.training import masked_trunk, qwen2_fold, qwen2_match
from inference.training.config import TrainingConfig
from inference.training.corpus import SourceFile
from inference.training.qwen2_teacher import States, TextSource
from inference.training.tokenizer import MASK

_TEXTS = 100
_SEED = 0
_RIDGE = 1e-3
"""How much the fit prefers the weights that are there, as a share of the mean square of what they are applied to."""

_SHARPNESS = 100.0
"""Of the attention that moves rows: the next row's share is all but 1e-5."""

_MOVED_SHARE = 20.0
"""How many times larger than a row's own state the state is that is moved there."""


def begin(model: Any, folder: Path, files: Sequence[SourceFile], training: TrainingConfig) -> None:
    """Gives a Qwen2 with one more layer the weights; it shares the tokenizer.

    Raises KeyError or RuntimeError where the folder holds another shape.
    """
    source: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32).requires_grad_(False)
    if model.config.num_hidden_layers != len(source.model.decoder.layers) + 1:
        raise RuntimeError(f"model.layers must be {len(source.model.decoder.layers) + 1}, one more than there")
    drawn = TextSource(folder / "tokenizer.json", files, _SEED)
    scale = qwen2_fold.STREAM_SCALE / model.config.hidden_size**0.5  # of our stream, where DiffusionGemma's is 1
    texts = drawn.draw(0, _TEXTS)
    with torch.no_grad():
        states = States.of(source, texts)
        for name, value in qwen2_fold.weights(source, model.config, states.sizes, scale).items():
            model.get_parameter(name).copy_(value)
        model.model.embed_tokens.weight[MASK] = states.entered[texts.noisy == MASK][0] * scale
        size = fit(model, texts.noisy, states, scale, causal=False)
        for layer in model.model.layers[:-1]:
            balance(layer)
    qwen2_match.match(model, source, drawn, scale, training)
    with torch.no_grad():
        _shift(model, size)


def fit(model: Any, ids: Tensor, states: States, scale: float, *, causal: bool) -> float:
    """Fits the projections that write to the stream, each to what is missing there, errors before it included.

    Returns the root mean square of the stream behind the last layer that was fitted.
    """
    batch, rows = ids.shape
    mask = masked_trunk.visible(torch.full((batch,), rows), torch.full((batch,), causal), rows)
    rope, hidden = masked_trunk.rotary(model, rows), model.model.embed_tokens(ids)
    for layer, attended, finished in zip(model.model.layers, states.attended, states.finished, strict=False):
        mixed = masked_trunk.mixed(layer.self_attn, layer.input_layernorm(hidden), rope, mask)
        _solve(layer.self_attn.o_proj, mixed, attended * scale - hidden)
        hidden = hidden + layer.self_attn.o_proj(mixed)
        prepared, mlp = layer.post_attention_layernorm(hidden), layer.mlp
        gated = mlp.act_fn(mlp.gate_proj(prepared)) * mlp.up_proj(prepared)
        _solve(mlp.down_proj, gated, finished * scale - hidden)
        hidden = hidden + mlp.down_proj(gated)
    return float(hidden.pow(2).mean().sqrt())


def _solve(linear: Any, given: Tensor, wanted: Tensor) -> None:
    """Ridge regression (B, L, i) -> (B, L, o) towards the weight that `linear` has."""
    rows, targets = given.flatten(0, 1).double(), wanted.flatten(0, 1).double()
    square = rows.T @ rows
    ridge = _RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=torch.double)
    solved = torch.linalg.solve(square + ridge, rows.T @ targets + ridge @ linear.weight.T.double())
    linear.weight.copy_(solved.T)


def balance(layer: Any) -> None:
    """Makes pairs of weights that only count as a product equally large, so that a step changes both alike."""
    own, mlp = layer.self_attn, layer.mlp
    pairs = ((own.q_proj.weight, own.k_proj.weight), (own.v_proj.weight, own.o_proj.weight))
    for one, other in (*pairs, (mlp.up_proj.weight, mlp.down_proj.weight)):
        factor = (one.pow(2).mean() / other.pow(2).mean()) ** 0.25
        one.div_(factor)
        other.mul_(factor)


def _shift(model: Any, size: float) -> None:
    """Makes the last layer write the state of the next row into each row: attention by position alone, by its biases.

    `size` is the root mean square of the stream before it.
    """
    layer, config = model.model.layers[-1], model.config
    own, half = layer.self_attn, layer.self_attn.head_dim // 2
    turn = masked_trunk.rotary(model, 2)
    cosines, sines = (part[0, 1, :half] for part in turn)  # of one row's distance
    strength = torch.full((half,), _SHARPNESS**0.5)
    own.q_proj.weight.zero_()
    own.k_proj.weight.zero_()
    own.q_proj.bias.copy_(torch.cat([strength, torch.zeros(half)]).repeat(config.num_attention_heads))
    own.k_proj.bias.copy_(torch.cat([strength * cosines, -strength * sines]).repeat(config.num_key_value_heads))
    own.v_proj.weight.copy_(torch.eye(config.hidden_size))
    own.o_proj.weight.copy_(torch.eye(config.hidden_size) * size * _MOVED_SHARE)
    layer.mlp.down_proj.weight.zero_()

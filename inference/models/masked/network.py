"""Qwen2's layers, with every row attending to every row: the network of masked-diffusion code models.

Weights keep their names from the files. Attention is never causal. Shapes: B sequences, A computed rows, T attended
rows, d the width, V the vocabulary.
"""

import math
import time
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.models.llama import LlamaConfig

_MANY_ROWS = 64
"""From so many rows on, the time of a pass grows with them."""


class KeyValues(Protocol):
    """Keys and values of rows, some of which are computed now."""

    def update(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Takes (B, H, A, h) of the computed rows; returns (B, H, T, h) of all attended rows."""


class _Attention(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_size = config.head_size
        width = config.num_attention_heads * self.head_size
        keys = config.key_heads * self.head_size
        self.q_proj = nn.Linear(config.hidden_size, width)
        self.k_proj = nn.Linear(config.hidden_size, keys)
        self.v_proj = nn.Linear(config.hidden_size, keys)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(
        self, rows: Tensor, turn: tuple[Tensor, Tensor], layer: int, known: KeyValues | None, visible: Tensor | None
    ) -> Tensor:
        heads = (*rows.shape[:2], -1, self.head_size)
        queries = turned(self.q_proj(rows).view(heads).transpose(1, 2), turn)
        keys = turned(self.k_proj(rows).view(heads).transpose(1, 2), turn)
        values = self.v_proj(rows).view(heads).transpose(1, 2)
        if known is not None:
            keys, values = known.update(layer, keys, values)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=visible, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class _Mlp(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(rows)) * self.up_proj(rows))  # type: ignore[no-any-return]


class QwenLayer(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = _Mlp(config)

    def forward(
        self, rows: Tensor, turn: tuple[Tensor, Tensor], layer: int, known: KeyValues | None, visible: Tensor | None
    ) -> Tensor:
        """(B, A, d) -> (B, A, d)."""
        rows = rows + self.self_attn(self.input_layernorm(rows), turn, layer, known, visible)
        return rows + self.mlp(self.post_attention_layernorm(rows))  # type: ignore[no-any-return]


class Qwen2(nn.Module):
    """The stack of layers between the embedding and the logits."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(QwenLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.row_s = math.inf
        """The latest time per row of a pass over many rows; inf: none yet. Too low on a GPU, where passes overlap."""

    @property
    def device(self) -> torch.device:
        return self.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embed_tokens.weight.dtype

    def forward(
        self, ids: Tensor, positions: Tensor, known: KeyValues | None = None, visible: Tensor | None = None
    ) -> Tensor:
        """The hidden states (B, A, d) of tokens (B, A) at positions (B, A) or (A,).

        With `known` they attend to what its `update` returns, otherwise to each other. `visible` (B, 1, 1, T) is False
        at rows hidden from all.
        """
        began = time.perf_counter()
        rows = self.embed_tokens(ids)
        turn = self.turn(positions)
        for number, layer in enumerate(self.layers):
            rows = layer(rows, turn, number, known, visible)
        if ids.numel() >= _MANY_ROWS:
            self.row_s = (time.perf_counter() - began) / ids.numel()
        return self.norm(rows)  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., d) -> float32 (..., V)."""
        return self.lm_head(hidden).float()  # type: ignore[no-any-return]

    def turn(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The cosines and sines (B or 1, 1, A, h) that rotate queries and keys."""
        angles = positions.float().unsqueeze(-1) * torch.tensor(self.config.frequencies, device=positions.device)
        angles = torch.cat([angles, angles], -1).unsqueeze(-3)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)


def turned(heads: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """(B, H, A, h) moved by the positions of `turn`. Moves add up, so cached rows can be moved again."""
    cosines, sines = turn
    first, second = heads.chunk(2, -1)
    return heads * cosines + torch.cat([-second, first], -1) * sines

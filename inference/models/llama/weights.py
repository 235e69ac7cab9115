"""Reads the weights of a checked checkpoint, one tensor at a time, into the network."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import prod

import torch
from torch import Tensor

from inference.models import devices, packed
from inference.models.checkpoint import Checkpoint
from inference.models.devices import DTYPES, EIGHT_BIT
from inference.models.family import OnProgress
from inference.models.llama import linear
from inference.models.llama.config import INTERLEAVED_IN_GGUF, ROPE_FACTORS_TENSOR, llama_config, weight_shapes
from inference.models.llama.linear import (
    DenseLinear,
    Int8DynamicLinear,
    Int8Weight,
    Int8WeightOnlyLinear,
    Linear,
    StackedLinear,
    quantise_rows,
)
from inference.models.llama.network import EmbeddingTable, LayerWeights, LlamaNetwork, interleave_rotary
from inference.models.packed import PackedLinear
from inference.models.tensor_readers import GgufReader, TensorReader, open_tensors

EMBEDDING_KEY = "model.embed_tokens.weight"
HEAD_KEY = "lm_head.weight"
_LOADED_AT = 0.1
_LAYERS_DONE_AT = 0.7
_SAME = 0.1
"""Converters may store a tied matrix twice, more finely as the head: the copies differ by less than this share."""
_DOWN_GROUPS = 4

_VOCABULARY_BITS = 8
"""The codes of the embedding and the head have at least this many bits, unless the file has fewer."""
_ROTATED = re.compile(r"\b[qk]_(proj|norm)\.")
"""Names of the weights whose rows get the rotary embedding."""
_Table = DenseLinear | Int8Weight | PackedLinear
Formats = Callable[[torch.device, str | None, str], Sequence[str]]
"""`precision.candidate_formats`, or `formats_for_many_rows`."""
_Rows = Iterator[tuple[str, int, Tensor]]
"""Some rows of a matrix: the name of their weight, the index of the first, and the rows (n, columns)."""


def load_network(
    checkpoint: Checkpoint, device_name: str | None, named: str | None, formats: Formats, progress: OnProgress
) -> tuple[LlamaNetwork, str]:
    """A checkpoint's network in the first of its formats that fits, and that format's name. Raises ModelError."""
    device = devices.choose_device(device_name)
    progress(0.05, "checking memory")
    tensors = open_tensors(checkpoint)
    candidates = formats(device, named, tensors.packed_dtype)
    on_cuda = device.type == "cuda"

    def weight_bytes(dtype: str) -> float:
        if on_cuda and dtype.endswith("bit"):
            return packed_bytes(tensors, dtype)
        return float(sum(map(prod, tensors.shapes.values())) * (1 if dtype == EIGHT_BIT else DTYPES[dtype].itemsize))

    dtype = devices.choose_fitting_dtype(checkpoint.name, device, devices.free_bytes(device), candidates, weight_bytes)
    is_dynamic = device.type == "cpu" and linear.has_dynamic_int8()
    builder = NetworkBuilder(checkpoint, device, dtype, dynamic=is_dynamic, packs=on_cuda)
    network = builder.network(progress)
    network.note = devices.use_triton_kernels(builder.packed_linears) if on_cuda else ""
    return network, dtype


def packed_bytes(tensors: TensorReader, dtype: str) -> float:
    """The memory of packed weights in a dtype."""
    return sum(packed.needed_bytes(shape, _code_bits(tensors, name, dtype)) for name, shape in tensors.shapes.items())


def _code_bits(tensors: TensorReader, name: str, dtype: str) -> int:
    """See `TensorReader.code_bits`."""
    return tensors.code_bits(name, dtype, _VOCABULARY_BITS if name in (EMBEDDING_KEY, HEAD_KEY) else 0)


class NetworkBuilder:
    def __init__(
        self, checkpoint: Checkpoint, device: torch.device, dtype: str, *, dynamic: bool, packs: bool = False
    ) -> None:
        """`dynamic`: 8-bit layers are `Int8DynamicLinear`. `packs`: they are `PackedLinear`. Raises ModelError."""
        self._config = llama_config(checkpoint)
        self._weights = open_tensors(checkpoint)
        self._shapes = weight_shapes(self._config)
        self._device = device
        self.packed_linears: list[PackedLinear] = []
        self._packed_dtype = dtype if packs and dtype.endswith("bit") else ""
        of_packed = torch.float32 if device.type == "cpu" else torch.bfloat16
        self._dtype = of_packed if self._packed_dtype else DTYPES[dtype]
        self._is_interleaved = checkpoint.gguf is not None and checkpoint.model_type in INTERLEAVED_IN_GGUF
        self._is_int8 = dtype == EIGHT_BIT and not packs
        self._dequant_buffer = linear.dequant_buffer() if self._is_int8 and not dynamic else None

    def network(self, progress: OnProgress) -> LlamaNetwork:
        """The network, on its device. Raises ModelError if the weights differ from the checkpoint's description."""
        layers = [self._layer(prefix) for prefix in layer_prefixes(self._config.num_hidden_layers, progress)]
        head = self._table(HEAD_KEY if HEAD_KEY in self._weights.shapes else EMBEDDING_KEY)
        embedding = self._embedding(head)
        norm = self._tensor("model.norm.weight")
        inv_freq = torch.tensor(self._config.inv_freq, device=self._device)
        if ROPE_FACTORS_TENSOR in self._weights.shapes:
            inv_freq /= self._tensor(ROPE_FACTORS_TENSOR)
        self._require_finite(ROPE_FACTORS_TENSOR, inv_freq)
        linear_head = self._linear(head, fine=True, keep=embedding is head)
        return LlamaNetwork(self._config, layers, embedding, norm, linear_head, inv_freq)

    def _embedding(self, head: _Table) -> EmbeddingTable:
        """The embedding. `Int8DynamicLinear` keeps no readable rows: those of a GGUF file stay in the file, other tied
        embeddings take memory twice.
        """
        is_tied = has_tied_embeddings(self._weights, self._shapes)
        if isinstance(head, Int8Weight) and self._dequant_buffer is None and isinstance(self._weights, GgufReader):
            return self._weights.in_file(HEAD_KEY if is_tied and HEAD_KEY in self._weights.shapes else EMBEDDING_KEY)
        return head if is_tied else self._table(EMBEDDING_KEY)

    def _layer(self, prefix: str) -> LayerWeights:
        def read(name: str) -> Tensor:
            return self._tensor(prefix + name)

        norms = [read(f"self_attn.{part}_norm.weight") for part in "qk" if self._config.has_head_norms]
        heads = {kind: [f"self_attn.{part}_proj.{kind}" for part in "qkv"] for kind in ("weight", "bias")}
        return LayerWeights(
            norm=read("input_layernorm.weight"),
            queries_keys_values=self._linear(self._stacked(*(prefix + name for name in heads["weight"])), fine=True),
            bias=torch.cat([read(name) for name in heads["bias"]]) if self._config.has_bias else None,
            head_norms=(norms[0], norms[1]) if norms else None,
            out=self._linear(self._stacked(prefix + "self_attn.o_proj.weight")),
            mlp_norm=read("post_attention_layernorm.weight"),
            gate_up=self._linear(self._stacked(*(f"{prefix}mlp.{side}_proj.weight" for side in ("gate", "up")))),
            down=self._linear(self._stacked(prefix + "mlp.down_proj.weight"), groups=_DOWN_GROUPS),
        )

    def _tensor(self, name: str) -> Tensor:
        value = self._weights.tensor(name, self._shapes[name], self._device, torch.float32)
        if value.ndim == 1:
            self._require_finite(name, value)
        return self._in_rotary_layout(name, value)

    def _in_rotary_layout(self, name: str, rows: Tensor) -> Tensor:
        """Reorders the rows of a weight to the interleaved rotary layout, if it needs that."""
        is_rotated = bool(_ROTATED.search(name)) and not self._is_interleaved
        return interleave_rotary(rows, self._config.head_size) if is_rotated else rows

    def _table(self, name: str) -> _Table:
        stored = self._stacked(name)
        assert not isinstance(stored, StackedLinear)
        return stored

    def _stacked(self, *names: str) -> _Table | StackedLinear:
        """Reads and stacks matrices. Only those of queries and keys are in memory in float32 as a whole."""
        if not self._packed_dtype:
            return self._weight((sum(self._shapes[name][0] for name in names), self._shapes[names[0]][1]), names)
        parts = [self._packed_linear(bits, list(same)) for bits, same in groupby(names, self._code_bits)]
        return parts[0] if len(parts) == 1 else StackedLinear(parts)

    def _code_bits(self, name: str) -> int:
        return _code_bits(self._weights, name, self._packed_dtype)

    def _packed_linear(self, bits: int, names: Sequence[str]) -> DenseLinear | PackedLinear:
        if not bits:
            plain = self._weight((sum(self._shapes[name][0] for name in names), self._shapes[names[0]][1]), names)
            assert isinstance(plain, DenseLinear)
            return plain
        stored = ((name, self._weights.read_quantised(name, self._shapes[name], bits, self._device)) for name in names)
        matrix = packed.stack_rows([weight.with_rows(partial(self._in_rotary_layout, name)) for name, weight in stored])
        self.packed_linears.append(PackedLinear(matrix, self._dtype))
        return self.packed_linears[-1]

    def _rows(self, names: Sequence[str]) -> _Rows:
        above = 0
        for name in names:
            whole = _ROTATED.search(name) and not self._is_interleaved
            blocks = [(0, self._tensor(name))] if whole else self._weights.blocks(name, self._shapes[name])
            yield from ((name, above + first, block) for first, block in blocks)
            above += self._shapes[name][0]

    def _linear(
        self, weight: _Table | StackedLinear, *, fine: bool = False, groups: int = 1, keep: bool = False
    ) -> Linear:
        """The linear layer of a weight. `fine` is for queries, keys, values and vocabulary, `groups` for `down`, where
        some activations are twenty times as large as most. `keep`: the rows of `weight` are looked up, too.

        With the 0.5B on 24 held-out files the predictions move by .016 nats (KL divergence from float32 activations; 7
        bits), or .006 (8 bits); without groups by .024, without either by .031.
        """
        if not isinstance(weight, Int8Weight):
            return weight
        if self._dequant_buffer is None:
            return Int8DynamicLinear(weight, fine=fine, groups=groups, consume=not keep)
        return Int8WeightOnlyLinear(weight, self._dequant_buffer)

    def _weight(self, shape: tuple[int, int], names: Sequence[str]) -> DenseLinear | Int8Weight:
        if not self._is_int8:
            plain = torch.empty(shape, dtype=self._dtype, device=self._device)
            for name, first, block in self._rows(names):
                self._require_finite(name, block)
                plain[first : first + len(block)] = block
            return DenseLinear(plain)
        codes = torch.empty(shape, dtype=torch.int8, device=self._device)
        scales = torch.empty(shape[0], dtype=torch.bfloat16, device=self._device)
        for name, first, block in self._rows(names):
            end = first + len(block)
            codes[first:end], scales[first:end] = quantise_rows(block.to(self._device))
            self._require_finite(name, scales[first:end])  # a scale is infinite or NaN if a weight of its row is
        return Int8Weight(codes, scales)

    def _require_finite(self, name: str, value: Tensor) -> None:
        if not bool(value.isfinite().all()):
            raise self._weights.not_finite_error(name)


def layer_prefixes(count: int, progress: OnProgress) -> Iterator[str]:
    """Yields the name prefix of the weights of each layer, and reports which one is being loaded."""
    for index in range(count):
        progress(_LOADED_AT + (_LAYERS_DONE_AT - _LOADED_AT) * index / count, f"layer {index + 1} of {count}")
        yield f"model.layers.{index}."
    progress(_LAYERS_DONE_AT, "vocabulary")


def has_tied_embeddings(weights: TensorReader, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether embedding and head are one matrix. The files may have two copies; then the head's is the finer."""
    if HEAD_KEY not in weights.shapes:
        return True
    (_, embedding), (_, head) = (next(weights.blocks(name, shapes[name])) for name in (EMBEDDING_KEY, HEAD_KEY))
    embedding, head = embedding[:256].float(), head[:256].float()
    return bool((embedding - head).norm() < _SAME * head.norm())

"""Captures the denoising pass, and the prefill of a few tokens, as CUDA graphs.

A shape is the canvases, their rows and the prefix's, rounded up; padding rows are masked out. On an H200 a
step of 256 rows of the released shape takes two fifths of the time without graphs.
"""

import weakref
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor

from inference.models import devices
from inference.models.cuda_graphs import CapturablePass, CudaGraphCapturer
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix
from inference.models.diffusion_gemma.interface import EncoderCache, LayerKeysValues, PrefixView, first_visible_row
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork

CANVAS_MULTIPLE = 32
MIN_PREFIX_ROWS = 256
"""Buffers for prefixes have this many rows, twice as many, and so on: six sizes up to 8,192 rows."""
_COMMON_PREFIX_ROWS = (0, 256, 512, 1024, 2048)
"""Capture a shape of canvases for these in advance; the buffers of longer prefixes take too much memory."""
_READ_TOKENS = (4, 32)
"""How many new tokens a captured prefill takes, rounded up: for a keystroke 4, whose rows need few experts."""
MAX_SHAPES = 40
"""How many shapes to keep, eight for each usual size of a prefix; evicts the least recently used."""

Shape = tuple[int, int, int]
"""Canvases, canvas rows, prefix rows."""


class CudaGraphNetwork(DiffusionGemmaNetwork):
    """A network that captures its denoising pass, shape by shape, and the reading of up to 32 tokens."""

    def __init__(self, model: Any, capturer: CudaGraphCapturer) -> None:
        super().__init__(model)
        self.capturer = capturer
        self._captured: OrderedDict[Shape, _CapturedShape] = OrderedDict()
        self._rows: dict[int, _PrefixBuffers] = {}
        self._readings: dict[tuple[int, int], _CapturedPrefill] = {}
        """By the rows of the prefix's buffers and the number of new tokens."""

    @property
    def captured_shapes(self) -> tuple[Shape, ...]:
        return tuple(shape for shape, program in self._captured.items() if program.replay)

    @torch.inference_mode()
    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """See `DiffusionNetwork`. Replays a captured prefill of a few tokens, if there is one."""
        batch, count = ids.shape
        width = next((width for width in _READ_TOKENS if count <= width), 0)
        reading = self._readings.get((_doubled(cache.length), width))
        if batch > 1 or reading is None or reading.replay is None or not isinstance(cache, EncodedPrefix):
            return super().encode(ids, cache)
        self._rows[_doubled(cache.length)].load(cache.view())
        reading.set_masks(cache.length)
        filled = torch.cat([ids, ids[:, -1:].expand(-1, width - count)], 1)  # which needs no other experts
        hidden = reading.replayed(filled, self._positions(cache.length, width))[:, :count].clone()
        for index, new in enumerate(reading.new):
            cache.update(new.keys[:, :, :count], new.values[:, :, :count], index)
        return hidden

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The same as `DiffusionGemmaNetwork.decode`. Computes a shape that is not captured yet directly."""
        batch, width = canvas.shape
        shape = (batch, -(-width // CANVAS_MULTIPLE) * CANVAS_MULTIPLE, _doubled(prefix.length))
        captured = self._captured.get(shape)
        if captured is None and not self.capturer.note:
            self._schedule(shape)
        if captured is None or captured.replay is None:
            return super().decode(canvas, soft, prefix, valid)
        self._captured.move_to_end(shape)
        self._rows[shape[2]].load(prefix)
        captured.set_masks(prefix.length, width, valid)
        signal = captured.inputs[1][:, :0] if soft is None else soft
        hidden = captured.replayed(canvas, signal, self._positions(prefix.length, shape[1]))
        return hidden[:, :width].clone()  # the next pass of any shape may overwrite it

    @torch.inference_mode()
    def run_idle_task(self) -> bool:
        """Captures a scheduled shape, if there is one."""
        may_continue = self.capturer.capture_next(self, self._captured, self._readings)
        if not self._captured:
            self._rows.clear()
        return may_continue

    def _positions(self, start: int, count: int) -> Tensor:
        return torch.arange(start, start + count, device=self.device)[None]

    def _schedule(self, shape: Shape) -> None:
        """Schedules a shape for capture in idle time, after the same canvases at the other common prefix lengths."""
        batch, width, prefix = shape
        for size in (*(usual for usual in _COMMON_PREFIX_ROWS if usual <= self.max_positions), prefix):
            if size not in self._rows:
                self._rows[size] = _PrefixBuffers(self, size)
                for count in _READ_TOKENS:
                    self._readings[size, count] = _CapturedPrefill(self, count, size, self._rows[size])
            if (batch, width, size) not in self._captured:
                self._captured[batch, width, size] = _CapturedShape(self, (batch, width, size), self._rows[size])
        self._captured.move_to_end(shape)
        while len(self._captured) > MAX_SHAPES:
            self._captured.popitem(last=False)
        used = {shape[2] for shape in self._captured}
        self._rows = {size: rows for size, rows in self._rows.items() if size in used}
        self._readings = {key: reading for key, reading in self._readings.items() if key[0] in used}


class _PrefixBuffers:
    """Keys and values of a prefix at fixed addresses, zeros after its end."""

    def __init__(self, network: DiffusionGemmaNetwork, size: int) -> None:
        self._loaded: weakref.ref[PrefixView] | None = None
        self.layers: list[LayerKeysValues] = []
        self.sizes: list[int] = []
        for kind, layer in zip(network.layer_types, network.empty_layers(), strict=True):
            rows = size - first_visible_row(kind, size, network.window)
            shape = (1, layer.keys.shape[1], rows, layer.keys.shape[3])
            self.layers.append(LayerKeysValues(layer.keys.new_zeros(shape), layer.keys.new_zeros(shape)))
            self.sizes.append(rows)

    def load(self, prefix: PrefixView) -> None:
        """Copies the prefix in, unless it is the one already there."""
        if self._loaded is not None and self._loaded() is prefix:
            return
        for ours, theirs in zip(self.layers, prefix.layers, strict=True):
            count = theirs.keys.shape[2]
            ours.keys[:, :, :count] = theirs.keys
            ours.values[:, :, :count] = theirs.values
        self._loaded = weakref.ref(prefix)


class _CapturedShape(CapturablePass):
    """The denoising pass in one shape."""

    def __init__(self, network: DiffusionGemmaNetwork, shape: Shape, rows: _PrefixBuffers) -> None:
        batch, width, length = shape
        self._network = network
        self._prefix = PrefixView(rows.layers, length, network.rows)
        canvas = torch.zeros((batch, width), dtype=torch.long, device=network.device)
        soft = torch.zeros((batch, width, network.hidden_size), dtype=network.dtype, device=network.device)
        self._masks = {
            kind: torch.ones((batch, 1, 1, size + width), dtype=torch.bool, device=network.device)
            for kind, size in zip(network.layer_types, rows.sizes, strict=True)
        }
        super().__init__(self._pass, canvas, soft, torch.zeros_like(canvas[:1]))

    def set_masks(self, length: int, width: int, valid: Tensor | None) -> None:
        """Masks the padding of a prefix of this length and of canvases of this width."""
        for kind, mask in self._masks.items():
            start = mask.shape[3] - self.inputs[0].shape[1]
            mask.zero_()[..., : length - first_visible_row(kind, length, self._network.window)] = True
            mask[..., start : start + width] = True if valid is None else valid[:, None, None]

    def _pass(self) -> Tensor:
        canvas, soft, positions = self.inputs
        return self._network.decode_rows(canvas, soft, positions, self._masks, self._prefix)


class _CapturedPrefill(CapturablePass):
    """The pass over the next tokens of a prefix: an `EncoderCache`."""

    def __init__(self, network: DiffusionGemmaNetwork, count: int, length: int, rows: _PrefixBuffers) -> None:
        self.new: list[LayerKeysValues] = list(rows.layers)
        """After a replay, the tokens' keys and values in each layer."""
        self.length = length
        self._network = network
        self._prefix = PrefixView(rows.layers, length, network.rows)
        ids, positions = torch.zeros((2, 1, count), dtype=torch.long, device=network.device)
        self._masks = {
            kind: torch.ones((1, 1, count, size + count), dtype=torch.bool, device=network.device)
            for kind, size in zip(network.layer_types, rows.sizes, strict=True)
        }
        super().__init__(self._pass, ids, positions)

    def update(self, keys: Tensor, values: Tensor, layer_index: int) -> tuple[Tensor, Tensor]:
        self.new[layer_index] = LayerKeysValues(keys, values)
        return self._prefix.update(keys, values, layer_index)

    def set_masks(self, length: int) -> None:
        """Masks the padding of a prefix of this length."""
        count = self.inputs[0].shape[1]
        causal = self._network.causal_masks(length, count)
        for kind, mask in self._masks.items():
            mask.zero_()[..., : causal[kind].shape[3] - count] = causal[kind][..., :-count]
            mask[..., -count:] = causal[kind][..., -count:]

    def _pass(self) -> Tensor:
        ids, positions = self.inputs
        return self._network.encode_rows(ids, positions, self._masks, self)


def _doubled(rows: int) -> int:
    """The buffer rows for a prefix of this length, 0 for 0."""
    return MIN_PREFIX_ROWS << max(0, (rows - 1) // MIN_PREFIX_ROWS).bit_length() if rows else 0


def fastest_network(model: Any, *, kernels: bool = True) -> DiffusionGemmaNetwork:
    """The network of a loaded model; on CUDA with Triton kernels, if they are correct, and captured passes."""
    plain = DiffusionGemmaNetwork(model)
    if plain.device.type != "cuda":
        return plain
    note = devices.use_triton_kernels(model.modules()) if kernels and plain.dtype == torch.bfloat16 else ""
    network = CudaGraphNetwork(model, CudaGraphCapturer())
    network.note = note
    network.decode(
        torch.zeros((1, 1), dtype=torch.long, device=network.device),
        None,
        PrefixView(network.empty_layers(), 0, network.rows),
    )
    network.run_idle_task()  # a failure becomes a note for the user
    return network

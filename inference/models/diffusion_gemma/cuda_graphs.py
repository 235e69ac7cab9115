"""Captures the denoising pass and the reading of a few tokens as CUDA graphs, and replays them.

Launching a step's thousands of kernels from Python takes longer than reading the weights. Each shape (batch, canvas
rows, prefix rows, rounded up) is captured once; rows that only pad it are masked out. No request waits for a capture: a
new shape is computed directly, and `run_idle_task` captures it once nobody waits. A network that differs from the plain
one on a few rows with the model's weights, or cannot run, is skipped and logged. On an H200 a step of 256 rows of the
released shape takes two fifths of the time.
"""

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from inference.models.checkpoint_files import first_error_line
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from inference.models.diffusion_gemma.passes import EncoderCache, LayerKeysValues, PrefixView, first_visible_row

CANVAS_MULTIPLE = 32
MIN_PREFIX_ROWS = 256
"""Buffers for prefixes have this many rows, twice as many, and so on: six sizes up to 8,192 rows."""
_COMMON_PREFIX_ROWS = (0, 256, 512, 1024, 2048)
"""Record a shape of canvases for these in advance; the buffers of larger ones take too much memory."""
_READ_TOKENS = (4, 32)
"""New tokens of a prefix, rounded up: a keystroke's take 4 rows, which need few experts."""
MAX_SHAPES = 40
"""How many shapes to keep, eight for each usual size of a prefix; evicts the least recently used."""
_TOLERANCE = {torch.float32: 1e-4}
_HALF_TOLERANCE = 0.05
"""By the dtype of its products, the allowed error of a faster pass: |difference| / |plainer|."""

_CHECK_ROWS = 27
"""Deliberately no multiple of a padding size, so that padding errors show up in the comparison."""
_KERNEL_CHECK_ROWS = (9, 27, 259, 515)
"""Rows of every size of block that Triton compiles, so that no request waits for that."""

log = logging.getLogger(__name__)
Shape = tuple[int, int, int]
"""Canvases, canvas rows, prefix rows."""
Pass = Callable[[], Tensor]
"""A pass at fixed addresses, or its replay: (B, rows, d). The result is valid until the next pass of any shape."""


class CudaGraphCapturer:
    """Captures passes as CUDA graphs that share one memory pool: no two of them run at a time."""

    def __init__(self) -> None:
        """Raises RuntimeError or AssertionError without a CUDA device."""
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # another one would take memory of its own

    def capture(self, run: Pass) -> Pass:
        """Replays `run` as a graph. Its result stays in the pool, at the same address. Raises RuntimeError."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):  # lazy set-up must not be recorded
            run()
        torch.cuda.current_stream().wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
            output = run()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


class CudaGraphNetwork(DiffusionGemmaNetwork):
    """A network that captures its denoising pass, shape by shape, and the reading of up to 32 tokens."""

    def __init__(self, model: Any, recorder: CudaGraphCapturer) -> None:
        super().__init__(model)
        self._recorder = recorder
        self._can_capture = True
        self._captured: OrderedDict[Shape, _CapturedShape] = OrderedDict()
        self._rows: dict[int, _PrefixBuffers] = {}
        self._readings: dict[tuple[int, int], _CapturedReading] = {}
        """By the rows of the prefix's buffers and the number of new tokens."""

    @property
    def captured_shapes(self) -> tuple[Shape, ...]:
        return tuple(shape for shape, program in self._captured.items() if program.replay)

    @torch.inference_mode()
    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """See `DiffusionNetwork`. Replays what appends a few tokens to a prefix if it is captured."""
        batch, count = ids.shape
        width = next((width for width in _READ_TOKENS if count <= width), 0)
        reading = self._readings.get((_doubled(cache.length), width))
        if batch > 1 or reading is None or reading.replay is None or not isinstance(cache, EncodedPrefix):
            return super().encode(ids, cache)
        self._rows[_doubled(cache.length)].load(cache.view())
        reading.load(ids, cache.length)
        hidden = reading.replay()[:, :count].clone()
        for index, new in enumerate(reading.new):
            cache.update(new.keys[:, :, :count], new.values[:, :, :count], index)
        return hidden

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The same as `DiffusionGemmaNetwork.decode`. Computes a shape that is not captured yet directly."""
        batch, width = canvas.shape
        shape = (batch, -(-width // CANVAS_MULTIPLE) * CANVAS_MULTIPLE, _doubled(prefix.length))
        captured = self._captured.get(shape)
        if captured is None and self._can_capture:
            self._schedule(shape)
        if captured is None or captured.replay is None:
            return super().decode(canvas, soft, prefix, valid)
        self._captured.move_to_end(shape)
        self._rows[shape[2]].load(prefix)
        captured.load(canvas, soft, prefix.length, valid)
        return captured.replay()[:, :width].clone()  # the next pass of any shape may overwrite it

    @torch.inference_mode()
    def run_idle_task(self) -> bool:
        """Captures a scheduled shape, which takes long; returns whether there may be more. A failure ends capturing."""
        known: tuple[_CapturedShape | _CapturedReading, ...] = (*self._captured.values(), *self._readings.values())
        scheduled = next((captured for captured in known if captured.replay is None), None)
        if scheduled is None:
            return False
        try:
            scheduled.capture(self._recorder)
        except RuntimeError as error:
            log.warning("passes are no longer recorded, which makes them slower: %s", error)
            self._can_capture = False
            self._captured.clear()
            self._readings.clear()
            self._rows.clear()
        return self._can_capture

    def _schedule(self, shape: Shape) -> None:
        """Schedules a shape for capture in idle time, after the same canvases at the other common prefix lengths."""
        batch, width, prefix = shape
        for size in (*(usual for usual in _COMMON_PREFIX_ROWS if usual <= self.max_positions), prefix):
            if size not in self._rows:
                self._rows[size] = _PrefixBuffers(self, size)
                for count in _READ_TOKENS:
                    self._readings[size, count] = _CapturedReading(self, count, size, self._rows[size])
            if (batch, width, size) not in self._captured:
                self._captured[batch, width, size] = _CapturedShape(self, (batch, width, size), self._rows[size])
        self._captured.move_to_end(shape)
        while len(self._captured) > MAX_SHAPES:
            self._captured.popitem(last=False)
        used = {shape[2] for shape in self._captured}
        self._rows = {size: rows for size, rows in self._rows.items() if size in used}
        self._readings = {key: reading for key, reading in self._readings.items() if key[0] in used}


class _PrefixBuffers:
    """Keys and values of a prefix at fixed addresses, zeros behind its end."""

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


class _CapturedShape:
    """The pass in one shape, whose changing inputs are at fixed addresses."""

    def __init__(self, network: DiffusionGemmaNetwork, shape: Shape, rows: _PrefixBuffers) -> None:
        batch, width, _ = shape
        self._network = network
        self._rows = rows
        self._width = width
        self.replay: Pass | None = None
        """(B, rows, d): the hidden states of the loaded step, until the next pass; None: not recorded yet."""
        device = network.device
        sizes = dict(zip(network.layer_types, rows.sizes, strict=True))
        self._canvas = torch.zeros((batch, width), dtype=torch.long, device=device)
        self._soft = torch.zeros((batch, width, network.hidden_size), dtype=network.dtype, device=device)
        self._positions = torch.zeros((1, width), dtype=torch.long, device=device)
        self._masks = {
            kind: torch.zeros((batch, 1, 1, size + width), dtype=torch.bool, device=device)
            for kind, size in sizes.items()
        }
        self._prefix = PrefixView(rows.layers, shape[2], network.rows)

    def load(self, canvas: Tensor, soft: Tensor | None, length: int, valid: Tensor | None) -> None:
        """Copies a step's input in; masks the padding of the shape."""
        width = canvas.shape[1]
        self._canvas.zero_()[:, :width] = canvas
        self._soft.zero_()
        if soft is not None:
            self._soft[:, :width] = soft
        self._positions[0] = torch.arange(length, length + self._width, device=self._positions.device)
        for kind, mask in self._masks.items():
            mask.zero_()
            visible_rows = length - first_visible_row(kind, length, self._network.window)
            start = mask.shape[3] - self._width
            mask[..., :visible_rows] = True
            mask[..., start : start + width] = True if valid is None else valid[:, None, None]

    def capture(self, recorder: CudaGraphCapturer) -> None:
        """Captures it, with a canvas and a prefix of zeros, all visible. Raises RuntimeError."""
        for mask in self._masks.values():
            mask.fill_(True)
        self.replay = recorder.capture(self._pass)

    def _pass(self) -> Tensor:
        return self._network.decode_rows(self._canvas, self._soft, self._positions, self._masks, self._prefix)


class _CapturedReading:
    """The pass over the next tokens of a prefix, whose changing inputs are at fixed addresses: an `EncoderCache`."""

    def __init__(self, network: DiffusionGemmaNetwork, count: int, length: int, rows: _PrefixBuffers) -> None:
        self.replay: Pass | None = None
        self.new: list[LayerKeysValues] = list(rows.layers)
        """After a replay, the tokens' keys and values in each layer."""
        self.length = length
        self._network = network
        self._prefix = PrefixView(rows.layers, length, network.rows)
        self._ids = torch.zeros((1, count), dtype=torch.long, device=network.device)
        self._positions = torch.zeros_like(self._ids)
        self._masks = {
            kind: torch.ones((1, 1, count, size + count), dtype=torch.bool, device=network.device)
            for kind, size in zip(network.layer_types, rows.sizes, strict=True)
        }

    def update(self, keys: Tensor, values: Tensor, layer_index: int) -> tuple[Tensor, Tensor]:
        self.new[layer_index] = LayerKeysValues(keys, values)
        return self._prefix.update(keys, values, layer_index)

    def load(self, ids: Tensor, length: int) -> None:
        """Copies tokens behind a prefix of this length in. The last one also fills up: it needs no other experts."""
        count = self._ids.shape[1]
        self._ids[:] = ids[:, -1:]
        self._ids[:, : ids.shape[1]] = ids
        self._positions[0] = torch.arange(length, length + count, device=self._ids.device)
        causal = self._network.causal_masks(length, count)
        for kind, mask in self._masks.items():
            mask.zero_()[..., : causal[kind].shape[3] - count] = causal[kind][..., :-count]
            mask[..., -count:] = causal[kind][..., -count:]

    def capture(self, recorder: CudaGraphCapturer) -> None:
        """Captures it, with everything visible. Raises RuntimeError."""
        self.replay = recorder.capture(self._pass)

    def _pass(self) -> Tensor:
        return self._network.encode_rows(self._ids, self._positions, self._masks, self)


def _doubled(rows: int) -> int:
    """The buffer rows for a prefix of this length, 0 for 0."""
    return MIN_PREFIX_ROWS << max(0, (rows - 1) // MIN_PREFIX_ROWS).bit_length() if rows else 0


def fastest_network(model: Any) -> DiffusionGemmaNetwork:
    """The network of a loaded model: on a GPU with kernels, and recorded, as far as its results match."""
    plain = DiffusionGemmaNetwork(model)
    if plain.device.type != "cuda":
        return plain
    direct = plain
    if plain.dtype == torch.bfloat16:
        direct = verified_network("products in Triton", lambda: kernel_network(model), plain, _KERNEL_CHECK_ROWS)
    return verified_network(
        "passes as CUDA graphs", lambda: CudaGraphNetwork(direct.model, CudaGraphCapturer()), direct
    )


def kernel_network(model: Any) -> DiffusionGemmaNetwork:
    """One that multiplies by kernels in Triton. Raises ImportError or ModelError."""
    from inference.models import triton_kernels  # not every system has Triton

    return DiffusionGemmaNetwork(triton_kernels.with_triton_kernels(model))


def verified_network(
    what: str,
    make: Callable[[], DiffusionGemmaNetwork],
    plainer: DiffusionGemmaNetwork,
    check_rows: Sequence[int] = (_CHECK_ROWS,),
) -> DiffusionGemmaNetwork:
    """The network that `make` makes if its results match the plainer one's; otherwise the plainer one.

    The log and the network's `note` say why. `what`: what makes it faster.
    """
    try:
        faster = make()
        differences = [pass_difference(faster, plainer, rows) for rows in check_rows]
        worst = float(torch.tensor(differences).max())  # not a number where one of them is none
        if worst <= 1.0:
            faster.note = plainer.note
            return faster
        problem = f"the results differ by {worst:.1f} times more than allowed"
    except Exception as error:  # a device may refuse, and another transformers release may differ
        problem = f"they cannot run here: {first_error_line(error)}"
    note = f"it is slower without {what}, which are not used: {problem}"
    log.warning("%s", note)
    plainer.note = f"{plainer.note}; {note}" if plainer.note else note
    return plainer


@torch.inference_mode()
def pass_difference(faster: DiffusionGemmaNetwork, plainer: DiffusionGemmaNetwork, rows: int = _CHECK_ROWS) -> float:
    """How much two denoising passes differ on some rows, relative to the limit: above 1 is too much."""
    ids = (torch.arange(rows, device=plainer.device) * 7)[None] % plainer.vocabulary_size
    faster_prefix, plainer_prefix = _encoded(faster, ids), _encoded(plainer, ids)
    faster.decode(ids, None, faster_prefix)
    while faster.run_idle_task():
        pass
    faster_prefix = _encoded(faster, ids)
    allowed = _TOLERANCE.get(plainer.dtype, _HALF_TOLERANCE)
    parts = []
    for soft in (None, plainer.token_embeddings(ids.flip(1))):
        plain = plainer.decode(ids, soft, plainer_prefix).float()
        parts.append(float((faster.decode(ids, soft, faster_prefix).float() - plain).norm() / plain.norm()) / allowed)
    return float(torch.tensor(parts).max())  # not a number where one of them is none


def _encoded(network: DiffusionGemmaNetwork, ids: Tensor) -> PrefixView:
    """A prefix (1, n) as a decoder reads it."""
    prefix = EncodedPrefix(network, new_prefix_cache(network, 0), [])
    network.encode(ids, prefix)
    prefix.commit(ids[0].tolist())
    return prefix.view()

"""The denoising pass in a few fixed shapes, so that a GPU can replay it as a recorded graph.

A step on a large model is thousands of small kernels; started one by one from Python they take longer than the weights
take to read. Recorded once per shape (batch, canvas rows, prefix rows, each rounded up) they are started together.
Rows that only fill a shape are masked out, so the result is that of the exact shape.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from inference.models.diffusion_gemma.fused import FusedNetwork
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.passes import LayerView, PrefixView

CANVAS_MULTIPLE = 32
PREFIX_MULTIPLE = 256
MAX_PROGRAMS = 8
"""Shapes kept recorded; the least recently used goes first."""

Shape = tuple[int, int, int]
"""Canvases, canvas rows, prefix rows."""


Pass = Callable[[], Tensor]
"""A pass at fixed addresses, or what replays it: (B, rows, d). The result counts until the next pass of any shape."""


class Recorder(Protocol):
    """Makes passes replayable. One serves all shapes of a network, so that they can share their memory."""

    def record(self, run: Pass) -> Pass:
        """What replays `run`."""


class AsItIs:
    """Runs the fixed-shape pass instead of a record of it, on any device."""

    def record(self, run: Pass) -> Pass:
        """`run` itself."""
        return run


class CudaGraphs:
    """Records passes as CUDA graphs that share one memory pool: no two of them run at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, run: Pass) -> Pass:
        """What replays `run` as a graph. Its result stays in the pool, at the same address each time."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # lazy set-up must not be recorded
            run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = run()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


class RecordedNetwork(FusedNetwork):
    """A network whose denoising pass is recorded, shape by shape."""

    def __init__(self, model: Any, recorder: Recorder | None = None) -> None:
        """`recorder`: how a pass is recorded; None: as a CUDA graph."""
        super().__init__(model)
        self._recorder = recorder or CudaGraphs()
        self._programs: OrderedDict[Shape, _Program] = OrderedDict()
        self._rows: dict[int, _PrefixRows] = {}

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes that are kept, the least recently used first."""
        return tuple(self._programs)

    @property
    def prefix_sizes(self) -> tuple[int, ...]:
        """The rows of the prefix buffers that are kept; those that no kept shape uses are dropped."""
        return tuple(sorted(self._rows))

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The same as `Network.decode`."""
        batch, width = canvas.shape
        shape = (batch, _up(width, CANVAS_MULTIPLE), _up(prefix.length, PREFIX_MULTIPLE))
        if shape[2] not in self._rows:
            self._rows[shape[2]] = _PrefixRows(self, shape[2])
        rows = self._rows[shape[2]]
        rows.load(prefix)
        program = self._programs.get(shape)
        if program is None:
            program = self._programs[shape] = _Program(self, shape, rows)
        self._programs.move_to_end(shape)
        program.load(canvas, soft, prefix.length, valid)
        hidden = program.run(self._recorder)
        self._forget()
        return hidden[:, :width].clone()  # the next pass of any shape may write where it stands

    def _forget(self) -> None:
        while len(self._programs) > MAX_PROGRAMS:
            self._programs.popitem(last=False)
        used = {shape[2] for shape in self._programs}
        self._rows = {size: rows for size, rows in self._rows.items() if size in used}


class _PrefixRows:
    """Keys and values of a prefix at fixed addresses, zeros behind its end."""

    def __init__(self, network: Network, size: int) -> None:
        self._loaded: weakref.ref[PrefixView] | None = None
        self.layers: list[LayerView] = []
        self.sizes: list[int] = []
        for index, layer in enumerate(network.empty_layers(1)):
            rows = size - network.first_visible_row(index, size)
            shape = (1, layer.keys.shape[1], rows, layer.keys.shape[3])
            self.layers.append(LayerView(layer.keys.new_zeros(shape), layer.keys.new_zeros(shape)))
            self.sizes.append(rows)

    def load(self, prefix: PrefixView) -> None:
        """Copies the prefix in, unless it is what was copied last."""
        if self._loaded is not None and self._loaded() is prefix:
            return
        for ours, theirs in zip(self.layers, prefix.layers, strict=True):
            count = theirs.keys.shape[2]
            ours.keys[:, :, :count] = theirs.keys[:1]
            ours.values[:, :, :count] = theirs.values[:1]
        self._loaded = weakref.ref(prefix)


@dataclass(frozen=True)
class _Inputs:
    """What changes from step to step, at fixed addresses."""

    canvas: Tensor
    soft: Tensor
    positions: Tensor
    masks: dict[str, Tensor]


class _Program:
    """The pass in one shape."""

    def __init__(self, network: Network, shape: Shape, rows: _PrefixRows) -> None:
        batch, width, _ = shape
        self._network, self._rows, self._width = network, rows, width
        self._replay: Pass | None = None
        device = network.device
        sizes = dict(zip(network.layer_types, rows.sizes, strict=True))
        self._inputs = _Inputs(
            canvas=torch.zeros((batch, width), dtype=torch.long, device=device),
            soft=torch.zeros((batch, width, network.hidden_size), dtype=network.dtype, device=device),
            positions=torch.zeros((1, width), dtype=torch.long, device=device),
            masks={
                kind: torch.zeros((batch, 1, 1, size + width), dtype=torch.bool, device=device)
                for kind, size in sizes.items()
            },
        )
        layers = [LayerView(v.keys.expand(batch, -1, -1, -1), v.values.expand(batch, -1, -1, -1)) for v in rows.layers]
        self._prefix = PrefixView(layers, shape[2])

    def load(self, canvas: Tensor, soft: Tensor | None, length: int, valid: Tensor | None) -> None:
        """Copies a step's input in; what only fills the shape is masked."""
        width, inputs = canvas.shape[1], self._inputs
        inputs.canvas.zero_()[:, :width] = canvas
        inputs.soft.zero_()
        if soft is not None:
            inputs.soft[:, :width] = soft
        inputs.positions[0] = torch.arange(length, length + self._width, device=inputs.positions.device)
        for kind, mask in inputs.masks.items():
            mask.zero_()
            seen = length - self._network.first_row(kind, length)
            start = mask.shape[3] - self._width
            mask[..., :seen] = True
            mask[..., start : start + width] = True if valid is None else valid[:, None, None]

    def run(self, recorder: Recorder) -> Tensor:
        """(B, rows, d): the hidden states of the step that was loaded, until the next pass. Recorded the first time."""
        if self._replay is None:
            self._replay = recorder.record(self._pass)
        return self._replay()

    def _pass(self) -> Tensor:
        given = self._inputs
        return self._network.decode_rows(
            given.canvas, given.soft, given.positions, given.masks.__getitem__, self._prefix
        )


def _up(number: int, multiple: int) -> int:
    """The next multiple, 0 for 0."""
    return -(-number // multiple) * multiple

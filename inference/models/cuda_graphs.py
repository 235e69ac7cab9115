"""Captures passes as CUDA graphs: launching thousands of kernels from Python takes longer than reading the weights.

Each shape is captured once. No request waits for that: a new shape is computed directly, and captured once nobody
waits. Its replay must then give what the pass gives for other inputs. After a failure nothing is captured any more.
"""

import logging
from collections.abc import Callable, MutableMapping
from typing import Any

import torch
from torch import Tensor

from inference.models.checkpoint_files import first_error_line

_TOLERANCE = 0.01
"""A replay runs the same kernels on the same shapes: |difference| / |result|."""
log = logging.getLogger(__name__)
Pass = Callable[[], Tensor]
"""A pass at fixed addresses, or its replay. The result is valid until the next pass of any shape."""


class CudaGraphCapturer:
    """Captures the passes of one network as CUDA graphs that share one memory pool: no two of them run at a time."""

    note = ""
    """Why nothing is captured any more; empty while capturing works."""

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

    def capture_next(self, network: Any, *passes: MutableMapping[Any, Any]) -> bool:
        """Captures one pass, which takes long. Returns whether there may be more. A failure goes to `network.note`."""
        scheduled = next((item for group in passes for item in group.values() if item.replay is None), None)
        if scheduled is None:
            return False
        try:
            scheduled.capture(self)
        except RuntimeError as error:
            self.note = f"it is slower without passes as CUDA graphs, which are not used: {first_error_line(error)}"
            log.warning("%s", self.note)
            network.note = "; ".join(filter(None, (network.note, self.note)))
            for group in passes:
                group.clear()
        return not self.note


class CapturablePass:
    """A pass whose inputs are at fixed addresses, and its replay once it is captured."""

    def __init__(self, run: Pass, *inputs: Tensor) -> None:
        """`inputs` (1 or B, rows, ...): all inputs that change, except masks, keys and values."""
        self.inputs = inputs
        self.replay: Pass | None = None
        self._run = run

    def replayed(self, *values: Tensor) -> Tensor:
        """The result for inputs of the same or fewer rows, which are padded with zeros. Only once it is captured."""
        assert self.replay is not None
        for buffer, value in zip(self.inputs, values, strict=True):
            buffer.zero_()[:, : value.shape[1]] = value
        return self.replay()

    def capture(self, capturer: CudaGraphCapturer) -> None:
        """Raises RuntimeError if it cannot be captured, or if a replay with other inputs differs."""
        self._fill(0)
        replay = capturer.capture(self._run)
        self._fill(1)
        replayed = replay().float()
        expected = self._run().float()  # the pass itself, on the state that the replay left
        difference = float((replayed - expected).norm() / expected.norm())
        if not difference <= _TOLERANCE:
            raise RuntimeError(f"a replay differs by {difference:.1%} from the pass itself")
        self.replay = replay

    def _fill(self, step: int) -> None:
        for buffer in self.inputs:
            buffer.copy_(step * (1 + torch.arange(buffer.shape[-1], device=buffer.device)))

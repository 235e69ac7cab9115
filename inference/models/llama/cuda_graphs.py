"""Captures the passes of up to 16 rows of a causal model, and their logits, as CUDA graphs.

The keys and values before a captured pass are copied into a buffer: for 1,000 tokens 12 MB with the 0.5B and 57 MB with
a 7B, whose passes read 0.4 and 4.5 GB. Triton's kernel reads only the rows in use; without it a pass reads the whole
buffer.
"""

import torch
from torch import Tensor

from inference.models import devices
from inference.models.cuda_graphs import CapturablePass, CudaGraphCapturer
from inference.models.llama.network import LlamaNetwork, TensorKvCache

_WIDTHS = (1, 2, 4, 8, 16)
BUFFER_ROWS = 4096
_CHECKED_ROWS = 300


class CudaGraphLlamaNetwork(LlamaNetwork):
    """A network that captures its passes of few rows."""

    def __init__(self, network: LlamaNetwork, capturer: CudaGraphCapturer, *, by_kernel: bool = False) -> None:
        """Shares the weights of `network`. `by_kernel`: uses Triton's attention kernel."""
        vars(self).update(vars(network))
        self._by_kernel = by_kernel
        self.capturer = capturer
        self._captured: dict[tuple[int, bool], CapturablePass] = {}
        """By width, and whether the pass computes logits."""
        self._buffer = self.empty_cache(BUFFER_ROWS).keys_values.zero_()

    @torch.inference_mode()
    def forward(self, ids: Tensor, cache: TensorKvCache, num_last: int) -> Tensor:
        """See `CausalNetwork`. A shape without a graph is computed as usual and captured later."""
        new_ids = ids[0].tolist()
        start, count = len(cache.ids), len(new_ids)
        end, width = start + count, _at_least(count)
        if width and not self._captured and not self.capturer.note:
            for rows in _WIDTHS:
                self._captured[rows, False], self._captured[rows, True] = self._rows_pass(rows), self._logits_pass(rows)
        captured = self._captured.get((width, False))
        if captured is None or captured.replay is None or start + width > BUFFER_ROWS:
            return super().forward(ids, cache, num_last)
        self._buffer[..., :start, :] = cache.keys_values[..., :start, :]
        positions = torch.arange(start, start + width, device=self.device)
        hidden = captured.replayed(ids, positions[None])[:, count - num_last : count].clone()
        cache.write_all_layers(start, self._buffer[..., start:end, :])
        cache.ids += new_ids
        return hidden

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        rows = hidden.flatten(0, -2)[None]
        captured = self._captured.get((_at_least(rows.shape[1]), True))
        if captured is None or captured.replay is None:
            return super().logits(hidden)
        return captured.replayed(rows)[:, : rows.shape[1]].clone().view(*hidden.shape[:-1], -1)

    @torch.inference_mode()
    def run_idle_task(self) -> bool:
        """Captures a scheduled pass, if there is one."""
        return self.capturer.capture_next(self, self._captured)

    def _logits_pass(self, width: int) -> CapturablePass:
        hidden = torch.zeros((1, width, self.config.hidden_size), device=self.device)
        return CapturablePass(lambda: LlamaNetwork.logits(self, hidden), hidden)

    def _rows_pass(self, width: int) -> CapturablePass:
        ids, positions = torch.zeros((2, 1, width), dtype=torch.long, device=self.device)

        def append(layer: int, keys: Tensor, values: Tensor) -> Tensor:
            rows = self._buffer[layer]
            rows.index_copy_(3, positions[0], torch.stack((keys, values)).transpose(2, 3).to(rows.dtype))
            return rows

        return CapturablePass(lambda: self.hidden_states(ids, positions, append, positions, width), ids, positions)

    def _attention(self, queries: Tensor, cached: Tensor, mask: Tensor | None) -> Tensor:
        """In captured passes `mask` holds the positions: each row sees the cached rows up to its own position."""
        if mask is None or mask.dtype != torch.long:
            return super()._attention(queries, cached, mask)
        keys, values = cached[:, 0]
        if not self._by_kernel:
            visible = torch.arange(keys.shape[1], device=self.device) <= mask[0, :, None]
            return super()._attention(queries, cached, visible.repeat_interleave(queries.shape[2] // len(keys), 0))
        from inference.models import triton_kernels  # not every system has Triton

        return triton_kernels.attention(queries[0], keys, values, mask[0], self.config.attention_multiplier)


def fastest_network(network: LlamaNetwork) -> LlamaNetwork:
    """The network itself; on CUDA the same with captured passes, if there is memory for their buffer."""
    if network.device.type != "cuda":
        return network
    keys = torch.randn_like(network.empty_cache(_CHECKED_ROWS).keys_values[0, 0, 0])
    queries = torch.randn(3, network.config.num_attention_heads, network.config.head_size, device=network.device)
    network.note = network.note or devices.use_triton_kernels([], queries, keys)
    try:
        faster = CudaGraphLlamaNetwork(network, CudaGraphCapturer(), by_kernel=not network.note)
    except RuntimeError:  # the weights fit, but the buffer of keys and values does not
        network.note = "; ".join(filter(None, (network.note, "it is slower without CUDA graphs: not enough memory")))
        return network
    faster.forward(torch.zeros((1, 1), dtype=torch.long, device=network.device), faster.empty_cache(1), 1)
    faster.run_idle_task()  # a failure becomes a note for the user
    return faster


def _at_least(count: int) -> int:
    """The smallest captured width of at least `count` rows; 0 if there is none."""
    return next((width for width in _WIDTHS if width >= count), 0)

"""Captures the passes of up to 16 rows of a model that writes in order, and their logits, as CUDA graphs.

The keys and values before a captured pass are copied into a buffer: of 1,000 tokens 12 MB for the 0.5B, 57 for a 7B, of
which a pass reads 0.4 and 4.5 GB. It sees 1,024 rows of that, or twice as many, and so on; a mask hides what is behind
each row, and the rows that only pad it.
"""

import torch
from torch import Tensor

from inference.models.cuda_graphs import CapturablePass, CudaGraphCapturer
from inference.models.llama.network import LlamaNetwork, TensorKvCache

_WIDTHS = (1, 2, 4, 8, 16)
_SIZES = (1024, 2048, 4096)


class CudaGraphLlamaNetwork(LlamaNetwork):
    """A network that captures its passes of few rows."""

    def __init__(self, network: LlamaNetwork, capturer: CudaGraphCapturer) -> None:
        """It shares its weights with `network`."""
        vars(self).update(vars(network))
        self.capturer = capturer
        self._captured: dict[tuple[int, int], CapturablePass] = {}
        """By rows and by how many rows they see; 0: their logits."""
        self._buffer = self.empty_cache(_SIZES[-1]).keys_values.zero_()

    @torch.inference_mode()
    def forward(self, ids: Tensor, cache: TensorKvCache, num_last: int) -> Tensor:
        """See `CausalNetwork`. A shape without a graph is computed as usual and captured later."""
        new_ids = ids[0].tolist()
        start, count = len(cache.ids), len(new_ids)
        end, width, size = start + count, _at_least(count, _WIDTHS), _at_least(start + _WIDTHS[-1], _SIZES)
        if width and size and (width, size) not in self._captured and not self.capturer.note:
            self._schedule(size)
        captured = self._captured.get((width, size))
        if captured is None or captured.replay is None:
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
        captured = self._captured.get((_at_least(rows.shape[1], _WIDTHS), 0))
        if captured is None or captured.replay is None:
            return super().logits(hidden)
        return captured.replayed(rows)[:, : rows.shape[1]].clone().view(*hidden.shape[:-1], -1)

    @torch.inference_mode()
    def run_idle_task(self) -> bool:
        """Captures a scheduled pass, if there is one."""
        return self.capturer.capture_next(self._captured)

    def _schedule(self, size: int) -> None:
        for width in _WIDTHS:
            self._captured[width, size] = self._rows_pass(width, size)
            if (width, 0) not in self._captured:
                self._captured[width, 0] = self._logits_pass(width)

    def _logits_pass(self, width: int) -> CapturablePass:
        hidden = torch.zeros((1, width, self.config.hidden_size), device=self.device)
        return CapturablePass(lambda: LlamaNetwork.logits(self, hidden), hidden)

    def _rows_pass(self, width: int, size: int) -> CapturablePass:
        ids, positions = torch.zeros((2, 1, width), dtype=torch.long, device=self.device)
        sharing = self.config.num_attention_heads // self.config.num_kv_heads

        def append(layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            seen = self._buffer[layer, ..., :size, :]
            seen.index_copy_(3, positions[0], torch.stack((keys, values)).transpose(2, 3).to(seen.dtype))
            return seen[0], seen[1]

        def run() -> Tensor:
            visible = torch.arange(size, device=self.device) <= positions[0, :, None]
            return self.hidden_states(ids, positions, append, visible.repeat_interleave(sharing, 0), width)

        return CapturablePass(run, ids, positions)


def fastest_network(network: LlamaNetwork) -> LlamaNetwork:
    """On CUDA the network whose passes are captured."""
    if network.device.type != "cuda":
        return network
    try:
        faster = CudaGraphLlamaNetwork(network, CudaGraphCapturer())
    except RuntimeError:  # the weights fit, but the buffer of keys and values does not
        network.note = "; ".join(filter(None, (network.note, "it is slower without CUDA graphs, for want of memory")))
        return network
    faster.forward(torch.zeros((1, 1), dtype=torch.long, device=network.device), faster.empty_cache(1), 1)
    faster.run_idle_task()  # if it fails, users are told
    faster.note = "; ".join(filter(None, (network.note, faster.capturer.note)))
    return faster


def _at_least(count: int, sizes: tuple[int, ...]) -> int:
    """The first of the sizes that is; 0 if none is."""
    return next((size for size in sizes if size >= count), 0)

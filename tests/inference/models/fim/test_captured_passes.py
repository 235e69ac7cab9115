"""Passes of few rows in fixed shapes give what the plain ones give, whatever the cache, and no request captures them.

A GPU's replay is not tested here: `OneBuffer` runs the pass that would be captured.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.models.llama.cuda_graphs import BUFFER_ROWS, CudaGraphLlamaNetwork
from tests.inference.models.fim.checkpoints import KINDS, greedy, loaded, random_checkpoint
from tests.inference.models.test_cuda_graphs import OneBuffer


def captured(network: Any, recorder: OneBuffer) -> CudaGraphLlamaNetwork:
    faster = CudaGraphLlamaNetwork(network, recorder)
    check(faster, network, [(0, 1)])
    assert recorder.recorded == [], "no request waits for that"
    capture_all(faster, recorder)
    return faster


def capture_all(faster: CudaGraphLlamaNetwork, recorder: OneBuffer) -> None:
    while faster.run_idle_task():
        pass
    assert faster.capturer.note == ""
    recorder.replays = 0  # those that tried what was captured


def check(faster: Any, plain: Any, passes: Sequence[tuple[int, int]]) -> None:
    """Passes of so many rows, each behind so many that were read before."""
    caches = [network.empty_cache(BUFFER_ROWS + 8) for network in (faster, plain)]
    for number, (start, count) in enumerate(passes):
        ids = torch.randint(0, 200, (1, count), generator=torch.Generator().manual_seed(number))
        results = []
        for network, cache in zip((faster, plain), caches, strict=True):
            cache.truncate(start)
            hidden = network.forward(ids, cache, (count + 1) // 2)
            results += [hidden, network.logits(hidden)]
        torch.testing.assert_close(results[0], results[2], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(results[1], results[3], rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "granite", "llama linear"])
def test_captured_passes_give_what_plain_ones_give(kind: str, tmp_path: Path) -> None:
    """Also after the cache is cut back, and after plain passes."""
    plain, recorder = loaded(random_checkpoint(tmp_path, kind.split()[0], **KINDS[kind])).network, OneBuffer()
    faster = captured(plain, recorder)
    check(faster, plain, [(0, 3), (3, 1), (4, 16), (20, 40), (60, 2), (61, 5), (30, 17), (47, 9), (20, 8), (28, 1)])
    assert recorder.replays == 2 * 8 + 1, "with their logits, and those of 9 of 17 rows"
    recorder.replays = 0
    end = BUFFER_ROWS - 17
    check(faster, plain, [(0, end), (end, 1), (end + 1, 16), (end + 17, 1), (5, 1)])
    assert recorder.replays == 2 * 3 + 1, "one is behind the buffer, all but its logits"


def test_prompts_take_turns_and_write_the_same() -> None:
    family, plain, recorder = loaded(), loaded(), OneBuffer()
    family.network = captured(family.network, recorder)
    prompts = [plain.fim_prompt(f"def area(width):\n    {name} = ", "\n") for name in ("a", "long_name", "a")]
    for ids in prompts:
        assert greedy(family, ids, 12) == greedy(plain, ids, 12)
    assert recorder.replays > 3 * 12

"""`python -m tests.gpu.shapes 7b 4`: milliseconds of passes of a shape that fills the middle, with random weights.

Bits: 16, or 4 or 8 as `dtype` means them. Plain passes and captured ones, after prompts of 500 and 3,000 tokens.
"""

import statistics
import sys
from functools import partial
from typing import Any

import torch

from inference.bench import measure_ms
from inference.models import devices
from inference.models.llama.config import LlamaConfig
from inference.models.llama.cuda_graphs import fastest_network
from inference.models.llama.linear import DenseLinear
from inference.models.llama.network import LayerWeights, LlamaNetwork
from inference.models.packed import PackedLinear, PackedWeight

SHAPES = {"0.5b": (896, 4864, 24, 14, 2), "7b": (3584, 18944, 28, 28, 4)}
"""Of Qwen2.5-Coder."""


def matrix(high: int, wide: int, bits: int) -> DenseLinear | PackedLinear:
    if bits == 16:
        return DenseLinear(torch.randn(high, wide, dtype=torch.bfloat16, device="cuda") / 50)
    words = torch.randint(-(1 << 31), 1 << 31, (high, wide * bits // 32), dtype=torch.int32, device="cuda")
    scales = torch.full((high, wide // 32), 0.04 / (1 << bits), dtype=torch.float16, device="cuda")
    return PackedLinear(PackedWeight(words, scales, torch.full_like(scales, -0.02), bits))


def network(shape: str, bits: int) -> LlamaNetwork:
    wide, inner, layers, heads, shared = SHAPES[shape]
    config = LlamaConfig(151_936, wide, inner, layers, heads, shared)
    size, ones = config.head_size, torch.ones(wide, device="cuda")
    qkv, made = (heads + 2 * shared) * size, partial(matrix, bits=bits)
    bias, head = torch.zeros(qkv, device="cuda"), matrix(config.vocab_size, wide, max(8, bits))
    parts = [(made(qkv, wide), made(wide, wide), made(2 * inner, wide), made(wide, inner)) for _ in range(layers)]
    weights = [LayerWeights(ones, one, bias, None, two, ones, three, four) for one, two, three, four in parts]
    built = LlamaNetwork(config, weights, head, ones, head, 1e4 ** (torch.arange(0, -size, -2, device="cuda") / size))
    built.note = devices.use_triton_kernels([head, *(each for part in parts for each in part)])
    return fastest_network(built)


def main(shape: str, bits: str) -> None:
    devices.choose_device("cuda")
    captured = network(shape, int(bits))
    for prompt in (500, 3000):
        cache = captured.empty_cache(prompt + 16)
        captured.forward(torch.ones((1, prompt), dtype=torch.long, device="cuda"), cache, 1)

        def one_pass(rows: int, kind: Any, cache: Any = cache, prompt: int = prompt) -> None:
            hidden = kind.forward(captured, torch.ones((1, rows), dtype=torch.long, device="cuda"), cache, rows)
            kind.logits(captured, hidden)[0, -1].argmax().item()  # waits for the device
            cache.truncate(prompt)

        for rows in (1, 4, 16):
            plain, fast = partial(one_pass, rows, LlamaNetwork), partial(one_pass, rows, type(captured))
            fast()
            while captured.run_idle_task():
                pass
            fast()
            times = [statistics.median(measure_ms(each, 20)) for each in (plain, fast)]
            print(
                f"{shape} {bits} bits, {prompt} tokens, {rows} rows: plain {times[0]:.2f} ms, captured {times[1]:.2f}"
            )
    print(captured.note)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Compares our engine with other ways to run the same weights, in one run.

All sections measure one network, a checkpoint's or one of random weights, on random tokens, which take as long as code;
no stopping rule applies. Its last line is one JSON object. The figures are medians; compare ratios, not machines.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from math import prod
from typing import Any, cast

import torch

from inference.bench import add_model_flags, measure_ms
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import OPEN_ID, ComposedCanvas
from inference.engine.denoising.denoise import Denoiser, NoiseSource
from inference.models import devices, diffusion_gemma, packed, registry
from inference.models.diffusion_gemma import cuda_graphs, weights
from inference.models.diffusion_gemma.adapter import DiffusionGemmaAdapter, EncodedPrefixHandle
from inference.models.diffusion_gemma.config import TINY_VISION
from inference.models.diffusion_gemma.encoded_prefix import EncodedKeysValues, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from inference.models.family import ModelError
from inference.models.infill_config import SamplerSettings
from inference.models.prefix_cache import PrefixCache
from inference.models.tensor_readers import TensorReader

_PREFIXES = (1024, 8192)
_FLOOR_CANVAS = 256
STEPS = 8
LINE_TOKENS = 8
SUFFIX_TOKENS = 16
SPREAD, ROUTER_SPREAD = 0.02, 2.0
"""Standard deviations. With the small one all experts of a router score alike, and any rounding changes the choice."""
_NEVER_STOPS = 1e-30
"""A confidence threshold that no canvas reaches."""
RELEASED_TEXT_CONFIG: dict[str, Any] = {
    "vocab_size": 262_144,
    "hidden_size": 2816,
    "intermediate_size": 2112,
    "num_hidden_layers": 30,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 2,
    "sliding_window": 1024,
    "num_experts": 128,
    "top_k_experts": 8,
    "moe_intermediate_size": 704,
    "max_position_embeddings": 262_144,
}
"""DiffusionGemma 26B-A4B, layer pattern 5 sliding : 1 full."""

RANDOM_SHAPES = {"26b": RELEASED_TEXT_CONFIG}


class RandomWeights(TensorReader):
    """Random weights by name, generated on the device, in place of those of a checkpoint."""

    def __init__(self, model: Any, device: torch.device, dtype: torch.dtype) -> None:
        """`model` has the shapes of the weights."""
        self.shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        self._tensor_options: dict[str, Any] = {"device": device, "dtype": dtype}
        self._generator = torch.Generator(device).manual_seed(0)

    def blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, torch.Tensor]]:
        """Norms and scalars are 1, except the norms of queries: attention is unscaled, so its scores would be large."""
        if len(shape) == 1:
            yield 0, torch.full((1, *shape), shape[0] ** -0.5 if "q_norm" in name else 1.0, **self._tensor_options)
            return
        spread = ROUTER_SPREAD if "router.proj" in name else SPREAD
        for first in range(0, prod(shape[:-1]), shape[-2]):  # matrix by matrix: those of experts have three dimensions
            matrix = torch.empty(shape[-2:], **self._tensor_options)
            yield first, matrix.normal_(0, spread, generator=self._generator)


def diffusion_gemma_config(text: dict[str, Any]) -> Any:
    from transformers import DiffusionGemmaConfig, DiffusionGemmaTextConfig

    return DiffusionGemmaConfig(
        text_config=DiffusionGemmaTextConfig(**text), vision_config=TINY_VISION, canvas_length=256
    )


def random_network(shape: str, device: str | None, dtype: str | None, *, kernels: bool) -> DiffusionGemmaNetwork:
    """Random weights of one of `RANDOM_SHAPES`, on CUDA by `kernels` or not. Raises ModelError if they cannot fit."""
    target = devices.choose_device(device)
    if shape == "26b" and target.type != "cuda":
        raise ModelError("--random 26b needs a CUDA device with 64 GB, or with 24 GB in 4 bits")
    chosen = weights.candidate_dtypes(target, dtype)[0]
    model = weights.empty_model(diffusion_gemma_config(RANDOM_SHAPES[shape]))
    weights.load_by_layers(model, RandomWeights(model, target, devices.DTYPES[chosen]), target, chosen, lambda *_: None)
    return cuda_graphs.fastest_network(model.eval(), kernels=kernels)


def measure(args: argparse.Namespace, lengths: Sequence[int] = _PREFIXES) -> dict[str, Any]:
    """Measures with prefixes of these numbers of tokens. Raises ModelError."""
    if args.random:
        network = random_network(args.random, args.device, args.dtype, kernels=not args.no_kernels)
    else:
        adapter = diffusion_gemma.load(registry.open_checkpoint(args.model), args.device, args.dtype, lambda *_: None)
        network = cast("DiffusionGemmaNetwork", cast("DiffusionGemmaAdapter", adapter).network)
    bench = LatencyBench(network)
    lengths = sorted({min(length, network.max_positions // 2) for length in lengths})
    return {
        "model": f"random-{args.random}" if args.random else args.model,
        "device": torch.cuda.get_device_name(bench.device) if bench.on_cuda else bench.device.type,
        "dtype": args.dtype or str(network.dtype).removeprefix("torch."),
        "against_generate": bench.against_generate(lengths[0]),
        "prefixes": [bench.measure_prefix(length) for length in lengths],
        "floor": bench.measure_bandwidth_floor(lengths[0]),
    }


class LatencyBench:
    """A network under measurement, and the random tokens it is measured on."""

    def __init__(self, network: DiffusionGemmaNetwork) -> None:
        self.network = network
        self.device = network.device
        self.on_cuda = network.device.type == "cuda"
        self._generator = torch.Generator().manual_seed(0)
        self._noise = NoiseSource(network.vocabulary_size, torch.Generator(self.device).manual_seed(0))

    def against_generate(self, prefix: int) -> dict[str, Any]:
        """One line: our loop on the same canvas and on a tight one, prefix cold and warm, and `generate`."""
        ids = self._ids(prefix)
        cache = self._cache()
        canvas_tokens = int(self.network.model.config.canvas_length)
        gen_ms = self._ms(lambda: self._generate(ids, canvas_tokens))
        figures = {"prefix_tokens": prefix, "hole_tokens": LINE_TOKENS, "steps": STEPS, "generate_ms": gen_ms}
        with closing(self._encoded(cache, ids)):
            for canvas, suffix in (("same", canvas_tokens - LINE_TOKENS), ("tight", SUFFIX_TOKENS)):
                for name, prefix_cache in (("cold", None), ("warm", cache)):
                    ms = self._ms(partial(self._infill, prefix_cache, ids, suffix))
                    figures |= {f"{canvas}_canvas_{name}_ms": ms, f"{canvas}_canvas_{name}_times_faster": gen_ms / ms}
        return figures

    def measure_prefix(self, length: int) -> dict[str, Any]:
        """A keystroke at the end of a prefix: encoding all of it, against only the part missing from the cache."""
        ids = self._ids(length)
        cache = self._cache()
        self._encoded(cache, ids).close()
        cold = self._ms(lambda: self._encoded(self._cache(), ids).close(), 3)
        warm = self._ms(lambda: self._encoded(cache, [*ids, *self._ids(1)]).close())
        return {"prefix_tokens": length, "cold_ms": cold, "warm_ms": warm, "warm_share": warm / cold}

    def measure_bandwidth_floor(self, prefix: int) -> dict[str, Any]:
        """A step on a full canvas, against the time to read its weights once, as fast as a large copy reads."""
        hole = _FLOOR_CANVAS // 4
        with closing(self._encoded(self._cache(), self._ids(prefix))) as context:
            ms = self._ms(lambda: self._denoise(context, hole, _FLOOR_CANVAS - hole), 3) / STEPS
        source = torch.empty(2 << 30 if self.on_cuda else 256 << 20, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        bandwidth = 2 * source.nbytes / (self._ms(lambda: target.copy_(source)) / 1000)
        read = self._step_bytes(_FLOOR_CANVAS)
        floor_ms = read / bandwidth * 1000
        sizes = {"canvas_tokens": _FLOOR_CANVAS, "step_bytes": read, "bandwidth_bytes_per_s": bandwidth}
        return {**sizes, "ms_per_step": ms, "floor_ms": floor_ms, "times_floor": ms / floor_ms}

    def _step_bytes(self, rows: int) -> int:
        """How many bytes of weights a decoder pass over `rows` canvas rows must read: all but the unused experts.

        Random rows use 1 - (1 - k/E)^rows of E experts, k each; the embedding is lm_head, and the encoder the decoder.
        """
        config = self.network.model.config.text_config
        used = 1 - (1 - config.top_k_experts / config.num_experts) ** rows
        sizes = packed.weight_bytes_by_name(self.network.model.model.decoder)
        return int(sum((used if ".experts." in name else 1.0) * size for name, size in sizes.items()))

    def _ids(self, count: int) -> list[int]:
        return torch.randint(5, self.network.vocabulary_size, (count,), generator=self._generator).tolist()

    def _cache(self) -> PrefixCache[EncodedKeysValues]:
        return new_prefix_cache(self.network, 8 << 30)

    def _encoded(self, cache: PrefixCache[EncodedKeysValues], ids: Sequence[int]) -> EncodedPrefixHandle:
        """The whole prefix, after encoding what the cache lacks. The caller closes it."""
        context = EncodedPrefixHandle(self.network, cache, ids)
        for _ in context.prefill():
            pass
        return context

    def _infill(self, cache: PrefixCache[EncodedKeysValues] | None, ids: Sequence[int], suffix: int) -> None:
        """Fills after `ids`, which are not cached, or all but their last token in the `cache`."""
        ids = [*ids, *self._ids(1)] if cache else ids
        with closing(self._encoded(cache or self._cache(), ids)) as context:
            self._denoise(context, LINE_TOKENS, suffix)

    def _denoise(self, context: EncodedPrefixHandle, hole: int, suffix: int) -> None:
        """Takes steps on a canvas with `hole` tokens to fill and `suffix` pinned ones after them."""
        row = ComposedCanvas((OPEN_ID,) * hole + tuple(self._ids(suffix)), ((0, 0, hole),))
        settings = SamplerSettings(max_steps=STEPS, confidence=_NEVER_STOPS)
        loop = Denoiser(context, CanvasBatch.from_canvases([row], self.device), settings, self._noise)
        while not loop.is_finished:
            loop.step()

    def _generate(self, ids: Sequence[int], canvas_tokens: int) -> None:
        """Runs transformers' own loop over one canvas."""
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
            DiffusionGemmaGenerationConfig,
            EntropyBoundSamplerConfig,
        )

        times = {"t_min": 0.4, "t_max": 0.8, "stability_threshold": 1, "confidence_threshold": _NEVER_STOPS}
        sampler = EntropyBoundSamplerConfig(entropy_bound=0.1)
        config: Any = DiffusionGemmaGenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=canvas_tokens, max_denoising_steps=STEPS, sampler_config=sampler, **times
        )
        self.network.model.generate(torch.tensor([list(ids)], device=self.device), generation_config=config)

    def _ms(self, work: Callable[[], object], repeats: int = 5) -> float:
        """The median time of `work` and the operations that it queues, after a warm-up that captures its passes."""
        work()
        while self.network.run_idle_task():
            pass
        work()
        return statistics.median(measure_ms(work, repeats, self._wait))

    def _wait(self) -> None:
        if self.on_cuda:
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_flags(parser)
    parser.add_argument("--random", choices=sorted(RANDOM_SHAPES), help="random weights of a shape")
    parser.add_argument("--no-kernels", action="store_true", help="on CUDA without kernels in Triton, to compare")

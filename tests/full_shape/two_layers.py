"""`python -m tests.full_shape.two_layers`: 4 bits against bfloat16 on two layers of full width, and memory in loading.

Prints one JSON object, and ends with status 1 if a bound is exceeded.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from inference.models import devices, registry
from inference.models.diffusion_gemma import weights
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from tests.full_shape import made_up

LAYERS = 2
LEAST_COSINE = 0.98
PREFIX, CANVAS = range(1000, 1064), range(2000, 2032)
CPU = torch.device("cpu")


def main(argv: list[str]) -> int:
    """The comparison; with a dtype, a folder and a file, one side of it in a process of its own."""
    if argv:
        dtype, folder, file = argv
        torch.save(_logits(dtype, Path(folder)), file)
        return 0
    home = Path(tempfile.mkdtemp(prefix="ils-"))
    try:
        result = _compare(home)
    finally:
        shutil.rmtree(home)
    print(json.dumps(result))
    held = result["cosine"] >= LEAST_COSINE and result["peak_bytes"] <= result["result_bytes"] + result["layer_bytes"]
    return 0 if held else 1


def _compare(home: Path) -> dict[str, Any]:
    made_up.write(home / "model", LAYERS, dense=True)
    sides = []
    for dtype in ("bfloat16", "4bit"):
        file = home / dtype
        subprocess.run([sys.executable, "-m", __spec__.name, dtype, str(home / "model"), str(file)], check=True)
        sides.append(torch.load(file))
    half, packed = sides
    cosine = torch.cosine_similarity(half.pop("logits"), packed.pop("logits"), dim=-1)
    return packed | {"cosine": float(cosine.mean()), "least_cosine": float(cosine.min())}


def _logits(dtype: str, folder: Path) -> dict[str, Any]:
    """The logits (n, V) of a canvas behind a prefix, and what loading took in bytes, torch itself left out."""
    small = folder.with_name("small")
    made_up.write(small, LAYERS, dense=False, **made_up.SMALL)
    _load(small, dtype)  # what torch and the libraries take is there now
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_bytes("VmRSS")
    model = _load(folder, dtype)
    sizes = {"result_bytes": tensor_bytes(model), "peak_bytes": memory_bytes("VmHWM") - before}
    layer = model.model.decoder.layers[0]
    experts = layer.experts
    per_expert = 3 * experts.hidden_dim * experts.intermediate_dim
    others = sum(one.numel() for name, one in layer.named_parameters() if "experts" not in name)
    network, ids = Network(model), list(PREFIX)
    prefix = PrefixCache(network, 1 << 30).acquire(ids)
    for _ in prefix.encode(ids):
        pass
    hidden = network.decode(torch.tensor([list(CANVAS)]), None, prefix.view())
    return sizes | {"layer_bytes": 2 * (experts.num_experts * per_expert + others), "logits": network.logits(hidden[0])}


def _load(folder: Path, dtype: str) -> Any:
    return weights.read(registry.find(str(folder)), CPU, devices.PRECISIONS[dtype], lambda _fraction, _what: None)


def tensor_bytes(model: torch.nn.Module) -> int:
    return sum(one.numel() * one.element_size() for one in [*model.parameters(), *model.buffers()])


def memory_bytes(key: str) -> int:
    """What Linux says of this process: VmRSS for its memory now, VmHWM for the most it had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

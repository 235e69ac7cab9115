"""`python -m tests.full_shape.two_layers`: 4 bits against bfloat16 on two layers of full width, as one JSON object.

Ends with status 1 if their logits are too far apart.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from inference.models import registry
from inference.models.diffusion_gemma import weights
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from tests.full_shape import made_up

LAYERS = 2
LEAST_COSINE = 0.98
PREFIX, CANVAS = range(1000, 1064), range(2000, 2032)


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="ils-"))
    try:
        made_up.write(home, LAYERS, dense=True)
        cosine = torch.cosine_similarity(_logits(home, "bfloat16"), _logits(home, "4bit"), dim=-1)
    finally:
        shutil.rmtree(home)
    print(json.dumps({"cosine": float(cosine.mean()), "least_cosine": float(cosine.min())}))
    return 0 if cosine.mean() >= LEAST_COSINE else 1


def _logits(folder: Path, dtype: str) -> torch.Tensor:
    """(n, V) of a canvas behind a prefix. Keeps nothing else of the model in memory."""
    model = weights.load_model(
        registry.open_checkpoint(str(folder)), torch.device("cpu"), dtype, lambda _fraction, _what: None
    )
    network = DiffusionGemmaNetwork(model)
    prefix = EncodedPrefix(network, new_prefix_cache(network, 1 << 30), list(PREFIX))
    for _ in prefix.prefill():
        pass
    return network.logits(network.decode(torch.tensor([list(CANVAS)]), None, prefix.view())[0])


if __name__ == "__main__":
    sys.exit(main())

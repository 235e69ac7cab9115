"""The tests' fill-in-the-middle checkpoint, original and modified, and the same weights in transformers."""

import json
import shutil
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from inference.models import registry
from inference.models.fim.adapter import LlamaFimAdapter
from tests.inference.models.test_affine import ROUNDED, SCALES, blocks, usual
from tests.inference.models.test_affine import read as packed_rows
from tests.served.to_gguf import Stored
from tests.served.to_gguf import main as as_gguf

FIM = Path(__file__).parents[3] / "data" / "fim"
PREFIX, MIDDLE, SUFFIX = 3, 4, 5


def loaded(folder: Path = FIM, dtype: str | None = "float32", device: str = "cpu") -> LlamaFimAdapter:
    family = registry.load_model(str(folder), device=device, dtype=dtype)
    assert isinstance(family, LlamaFimAdapter)
    return family


def changed(folder: Path, **config: object) -> Path:
    """A copy with other values in config.json; None takes the key out."""
    shutil.copytree(FIM, folder, dirs_exist_ok=True)
    file = folder / "config.json"
    values = json.loads(file.read_text()) | config
    file.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
    return folder


def stock(folder: Path = FIM) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.inference_mode()
def stock_logits(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """(n, V) logits of the token after each of `ids`."""
    return model(torch.tensor([list(ids)])).logits[0]  # type: ignore[no-any-return]


def greedy(family: LlamaFimAdapter, ids: Sequence[int], count: int) -> list[int]:
    context = family.open_prefix(ids)
    list(context.prefill())
    writing = context.continuation(count)
    logits, written = writing.decode(torch.empty(1, 0, dtype=torch.long)), list[int]()
    while len(written) < count and (token := int(logits.argmax())) not in family.stop_ids:
        written.append(token)
        logits = writing.decode(torch.tensor([[token]]))
    context.close()
    return written


LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e3, "factor": 8.0, "original_max_position_embeddings": 64}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}


def random_checkpoint(folder: Path, kind: str, **config: object) -> Path:
    """Random weights of the shape of `qwen2`, `llama`, `qwen3` or `granite`; every two heads share keys and values."""
    from transformers import AutoConfig, AutoModelForCausalLM

    values = json.loads((changed(folder) / "config.json").read_text())
    values = {key: value for key, value in values.items() if key not in ("model_type", "architectures", "head_dim")}
    values |= {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 96}
    values |= {"num_hidden_layers": 3, "layer_types": None, "tie_word_embeddings": False, "rope_parameters": None}
    torch.manual_seed(0)
    shape = AutoConfig.for_model(kind, **{**values, **config})
    model = AutoModelForCausalLM.from_config(shape, dtype=torch.float32)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder)
    return folder


_GRANITE = {"embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.22}
KINDS: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen3": {"head_dim": 24},
    "llama plain": {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "tie_word_embeddings": True},
    "llama linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}, "head_dim": 24},
    "llama llama3": {"rope_parameters": LLAMA3},
    "granite": _GRANITE | {"logits_scaling": 4.0, "rope_parameters": {"rope_type": "default", "rope_theta": 1e7}},
}


def write_quantised(folder: Path, kind: str) -> tuple[Path, Path]:
    """A GGUF file with matrices of every type, and one with the weights in float32 that we make of its groups."""
    types = cycle([*SCALES, *ROUNDED])
    wide = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64}
    random_checkpoint(folder, kind.split()[0], **KINDS[kind] | wide)
    made: dict[str, Stored] = {}

    def packed(name: str, weights: np.ndarray) -> Stored:
        if weights.ndim == 2:
            kind = "Q8_0" if name.startswith("model.embed") else next(types)
            made[name] = blocks(kind, 0.02 * usual(len(weights)), weights.shape[1]), gguf.GGMLQuantizationType[kind]
        return made.get(name, (weights, None))

    def of_groups(name: str, weights: np.ndarray) -> Stored:
        content, type_ = made.get(name, (weights, None))
        return content if type_ is None else packed_rows(content, type_.name).weights(torch.float32).numpy(), None

    as_gguf(folder, folder / "packed.gguf", packed)
    as_gguf(folder, folder / "plain.gguf", of_groups)
    return folder / "packed.gguf", folder / "plain.gguf"

"""Small random masked-diffusion checkpoints, as their publishers write them: plain Qwen2 under three names."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.inference.models.random_model import BYTES, byte_tokenizer

EOS, MASK, EXPAND, BOS = len(BYTES), len(BYTES) + 1, len(BYTES) + 2, len(BYTES) + 3
VOCABULARY_SIZE = len(BYTES) + 16
"""Larger than the tokenizer's, as published ones are."""
_PARTS = 0.1
"""How strong the logits are of bytes that are parts of a character: alone they are no text, and no candidate."""


def random_qwen2(seed: int = 0, *, tied: bool = False, **other: Any) -> Any:
    """Transformers' own model. Weights scaled up, so that its predictions are far from uniform."""
    torch.manual_seed(seed)
    shape = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY_SIZE,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": tied,
    }
    model = Qwen2ForCausalLM(Qwen2Config(**shape | other)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_({"model.embed_tokens.weight": 20.0, "lm_head.weight": 25.0}.get(name, 6.0))
            elif name.endswith("bias"):
                parameter.normal_()
        if not tied:
            model.lm_head.weight[[id_ for id_, name in enumerate(BYTES) if name >= "\u00a1"]] *= _PARTS
    return model


@torch.inference_mode()
def stock_logits(model: Any, ids: Sequence[int], *, shifted: bool) -> torch.Tensor:
    """(n, V) what transformers' own Qwen2, told with a whole mask that every row sees every row, predicts of each."""
    everything = torch.ones(1, 1, len(ids), len(ids), dtype=torch.bool)
    found: torch.Tensor = model(torch.tensor([list(ids)]), attention_mask=everything).logits[0]
    return torch.cat([found[:1], found[:-1]]) if shifted else found


def save_open_dcoder(folder: Path, seed: int = 0, *, mask: str = "<M>", **shape: Any) -> None:
    """As Open-dCoder: Qwen2ForCausalLM; only the tokenizer knows of a mask token."""
    random_qwen2(seed, **shape).save_pretrained(folder)
    _save_tokenizer(folder, {"<|endoftext|>": EOS, mask: MASK})


def save_dream(folder: Path, seed: int = 0, *, expand: bool = False, **shape: Any) -> None:
    """As Dream, or DreamOn with `expand`: no tokenizer.json, the mask's id in config.json, code that is not run."""
    random_qwen2(seed, **shape).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["DreamModel"], "model_type": "Dream", "mask_token_id": MASK}
    config |= {"auto_map": {"AutoModel": "modeling_dream.DreamModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling_dream.py").write_text("raise SystemExit('the code of a checkpoint was run')\n")
    added = {"<|endoftext|>": EOS, "<|mask|>": MASK, "<|expand|>" if expand else "<|other|>": EXPAND}
    added["<|beginoftext|>"] = BOS
    (folder / "vocab.json").write_text(json.dumps({name: id_ for id_, name in enumerate(BYTES)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    decoder = {str(id_): {"content": name, "special": True} for name, id_ in added.items()}
    stated = {"added_tokens_decoder": decoder, "bos_token": "<|beginoftext|>", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated | {"mask_token": "<|mask|>"}))


def save_mdlm(folder: Path, seed: int = 0, **shape: Any) -> None:
    """As dllm's conversions: in place, a head of its own that config.json calls tied."""
    random_qwen2(seed, **shape).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["A2DQwen2LMHeadModel"], "model_type": "a2d-qwen2", "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    _save_tokenizer(folder, {"<|endoftext|>": EOS, "<|mask|>": MASK})


def _save_tokenizer(folder: Path, added: dict[str, int]) -> None:
    byte_tokenizer(BYTES, sorted(added, key=lambda name: added[name])).save(str(folder / "tokenizer.json"))

"""A small random DiffusionGemma with all parts of the large one: sliding and full layers, experts, V = K layers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DiffusionGemmaTextConfig

from inference.models.cuda_graphs import CudaGraphCapturer, Pass
from inference.models.diffusion_gemma.config import TINY_VISION

VOCABULARY_SIZE = 320
CANVAS_TOKENS = 16
WINDOW = 24
_FIRST_PART = chr(290)
"""How a byte-level tokenizer writes 0x80, the first of the bytes that are parts of a character and have no sign."""
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIAL_TOKENS = ("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>")


def random_model(canvas_tokens: int = CANVAS_TOKENS, layers: int = 4) -> Any:
    """Weights scaled up, so that its predictions are far from uniform and a wrong loop shows at once."""
    torch.manual_seed(0)
    text = DiffusionGemmaTextConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        global_head_dim=32,
        num_global_key_value_heads=1,
        sliding_window=WINDOW,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=32,
        max_position_embeddings=1024,
        layer_types=["sliding_attention", "full_attention"] * (layers // 2),
    )
    config = DiffusionGemmaConfig(text_config=text, vision_config=TINY_VISION, canvas_length=canvas_tokens)
    config._attn_implementation = "sdpa"
    model = DiffusionGemmaForBlockDiffusion(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(6.0 if "embed_tokens" in name else 3.0)
    return model


def byte_tokenizer(
    names: Sequence[str] = (*SPECIAL_TOKENS, *BYTES), special: Sequence[str] = SPECIAL_TOKENS
) -> Tokenizer:
    """One with a token for each byte; those of `special` that `names` lacks come last."""
    tokenizer = Tokenizer(models.BPE(vocab={name: id_ for id_, name in enumerate(names)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def save_random_checkpoint(folder: Path, canvas_tokens: int = 64, layers: int = 4, *, parts: float = 0.1) -> None:
    """A checkpoint folder as a hub would hold it: no infill.json, so it is taken for a released DiffusionGemma.

    `parts`: how strong its logits are of bytes that are parts of a character. By default it seldom writes them, for
    alone they are no text.
    """
    model, tokenizer = random_model(canvas_tokens=canvas_tokens, layers=layers), byte_tokenizer()
    ids = [id_ for char, id_ in tokenizer.get_vocab().items() if "¡" <= char <= "ÿ" or char >= _FIRST_PART]
    with torch.no_grad():
        model.lm_head.weight[ids] *= parts
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


class AsItIs(CudaGraphCapturer):
    """A recorder that runs the fixed-shape pass instead of a record of it, on any device."""

    def __init__(self) -> None:
        pass

    def capture(self, run: Pass) -> Pass:
        return run

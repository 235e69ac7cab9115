"""First weights of a causal Qwen2 from a small DiffusionGemma, whose encoder is causal too: nothing is learnt anew.

As in qwen2_start.py: weights are carried over, and what writes to the residual stream is fitted by least squares to
what the encoder's stream holds, over plain text. Then the embeddings of the other tokenizer's tokens are made.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders
from transformers import DiffusionGemmaForBlockDiffusion

from inference.training import qwen2_fold, qwen2_start, tokenizer, vocabulary_transfer
from inference.training.corpus import SourceFile
from inference.training.fim_tokenizer import NAMES
from inference.training.qwen2_teacher import ROWS, MaskedTexts, States, TextSource

_TEXTS = 100
_SEED = 0


def begin(model: Any, folder: Path, files: Sequence[SourceFile], own: Tokenizer) -> None:
    """Gives a Qwen2 of as many layers the weights; `own` is its tokenizer, of as many entries.

    Raises KeyError or RuntimeError where the folder holds another shape.
    """
    source: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32).requires_grad_(False)
    if model.config.num_hidden_layers != len(source.model.decoder.layers):
        raise RuntimeError(f"model.layers must be {len(source.model.decoder.layers)}, as many as there")
    scale = qwen2_fold.STREAM_SCALE / model.config.hidden_size**0.5  # of our stream, where DiffusionGemma's is 1
    clean = TextSource(folder / "tokenizer.json", files, _SEED).draw(0, _TEXTS).clean
    with torch.no_grad():
        states = States.of(source, MaskedTexts(clean, clean, ROWS - 1))  # all but the last row go through the encoder
        for name, value in qwen2_fold.weights(source, model.config, states.sizes, scale).items():
            model.get_parameter(name).copy_(value)
        qwen2_start.fit(model, clean, states, scale, causal=True)
        for layer in model.model.layers:
            qwen2_start.balance(layer)
        embedded = model.model.embed_tokens.weight
        old = tokenizer.load(folder / "tokenizer.json")
        embedded.copy_(
            vocabulary_transfer.embeddings(old, embedded, own, first_text=len(NAMES), seed=_SEED, text_of=_text_of)
        )


def _text_of(piece: str) -> str:
    """What a byte-level entry stands for; a part of a character comes out as the sign for what is no text."""
    text: str = decoders.ByteLevel().decode([piece])
    return text

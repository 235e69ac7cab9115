"""A tokenizer as Qwen2.5-Coder's, small: byte-level BPE over Qwen2's units, with the same special tokens.

Its units and names are those that other programs know, llama.cpp among them, which knows units by a name alone.
"""

from collections.abc import Iterable

from tokenizers import Tokenizer

from inference.training import tokenizer
from inference.training.tokenizer import Tokens

NAMES = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
)
END, _, _, PREFIX, MIDDLE, SUFFIX, PAD = range(len(NAMES))

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] + '\\n' }}{% endfor %}"
"""What was said, line after line, and nothing around it: the checkpoint has learnt no conversation."""

_UNITS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokens(vocabulary_size: int) -> Tokens:
    """The ids of a tokenizer that `train` made. Nothing stands before the text of a file; `END` follows it."""
    return Tokens(PAD, END, END, None, None, len(NAMES), vocabulary_size, (END,))


def train(texts: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """A tokenizer of at most `vocabulary_size` entries: the special tokens, all 256 bytes, then merges."""
    return tokenizer.train(texts, vocabulary_size, NAMES, _UNITS)

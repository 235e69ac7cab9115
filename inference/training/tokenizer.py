"""The tokenizer: byte-level BPE whose units are those of code. Lossless for every text.

A line break and the indentation after it are one unit, a space belongs to the word after it, `_` begins a word part.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<pad>", "<eos>", "<bos>", "<mask>", "<slack>")
PAD, EOS, BOS, MASK, SLACK = range(5)
FIRST_TEXT_TOKEN = len(SPECIAL_TOKENS)

_UNITS = r"\n *| ?_*[A-Za-z]+| ?\d| ?_+| ?[^\sA-Za-z\d_]+| +(?= \S)| +|[^\S\n ]+"


@dataclass(frozen=True)
class Tokens:
    """The ids for training. `ending` follows the text of a file. Without a mask token, noise is random tokens."""

    pad: int
    eos: int
    bos: int
    slack: int
    mask: int | None
    first_text: int
    vocabulary_size: int
    ending: tuple[int, ...]


def own_tokens(vocabulary_size: int) -> Tokens:
    """The ids of a tokenizer from `train`."""
    return Tokens(PAD, EOS, BOS, SLACK, MASK, FIRST_TEXT_TOKEN, vocabulary_size, (EOS,))


def train(texts: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """A tokenizer of at most `vocabulary_size` entries: the special tokens, all 256 bytes, then merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_UNITS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return as_text(tokenizer)


def load(file: Path) -> Tokenizer:
    """A tokenizer from its `tokenizer.json`."""
    return as_text(Tokenizer.from_file(str(file)))


def as_text(tokenizer: Tokenizer) -> Tokenizer:
    """Treats `<mask>` in a document as its characters, and not as a special token."""
    tokenizer.encode_special_tokens = True
    return tokenizer

"""A small tokenizer of Gemma's kind: BPE over `▁`, byte fallback, tokens for runs of spaces and of line breaks.

Special tokens have the names and ids of Gemma's, with unused ones between them, so code that reads a released
checkpoint reads one with this tokenizer. Only the merges are learnt, on words, digits and groups of signs. Encoding
does not split text into those again, as Gemma's does not: no merge joins two of them.
"""

import json
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from inference.training.tokenizer import Tokens, as_text

PAD, EOS, BOS, UNKNOWN, MASK = range(5)
TOOL_RESPONSE, TURN, TURN_END = 50, 105, 106
END_IDS = (EOS, TURN_END, TOOL_RESPONSE)
"""The ends of a reply according to the released `generation_config.json`."""

NAMES = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>", "mask_token": "<mask>"}
"""`<mask>` is part of Gemma's vocabulary, but no noise is made of it."""

_TOOLS = ("<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>")
_CHANNELS = {98: "<|think|>", 100: "<|channel>", 101: "<channel|>", TURN: "<|turn>", TURN_END: "<turn|>"}
_NAMED = dict(enumerate(NAMES.values())) | dict(enumerate(_TOOLS, TOOL_RESPONSE - 4)) | _CHANNELS
_FIRST_TEXT_TOKEN = TURN_END + 1
_SPACE = "\u2581"
_RUNS = (*("\n" * count for count in range(1, 9)), *(_SPACE * count for count in range(2, 32)))
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
_PIECES = rf"{_SPACE}?_*[A-Za-z]+|\d|{_SPACE}?_+|{_SPACE}?[^\s{_SPACE}A-Za-z\d_]+|{_SPACE}|\s"
_CHARACTERS = 120
_TAIL_EOS_TOKENS = 8

SMALLEST = _FIRST_TEXT_TOKEN + len(_RUNS) + len(_BYTES) + _CHARACTERS
"""Entries that every such vocabulary has, before the first merge."""


def tokens(vocabulary_size: int) -> Tokens:
    """The ids of a tokenizer from `train`. The text of a file ends with the turn, and nothing follows."""
    ending = (TURN_END, *[EOS] * _TAIL_EOS_TOKENS)
    return Tokens(PAD, EOS, BOS, None, None, _FIRST_TEXT_TOKEN, vocabulary_size, ending)


def train(texts: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """A tokenizer of at most `vocabulary_size` entries, at least SMALLEST."""
    learnt, merges = _learn(texts, vocabulary_size - SMALLEST + _CHARACTERS)
    specials = [_NAMED.get(number, f"<unused{number}>") for number in range(_FIRST_TEXT_TOKEN)]
    pieces = dict.fromkeys([*specials, *_RUNS, *_BYTES, *learnt])
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: number for number, piece in enumerate(pieces)},
            merges=merges,
            unk_token=NAMES["unk_token"],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    tokenizer.add_tokens([AddedToken(run, special=False, normalized=True) for run in _RUNS])
    return as_text(with_bos(tokenizer))


def with_bos(tokenizer: Tokenizer) -> Tokenizer:
    """Adds <bos> before a text by default, as Gemma's does."""
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BOS)])
    return tokenizer


def _learn(texts: Iterable[str], count: int) -> tuple[list[str], list[tuple[str, str]]]:
    """At most `count` characters and merged pieces by their rank, and the merges in order."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Replace(" ", _SPACE)
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(rf"{_SPACE}{{2,}}|\n+"), "removed"),
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
        ]
    )
    trainer = trainers.BpeTrainer(vocab_size=count, limit_alphabet=_CHARACTERS, show_progress=False)
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    merges = [(first, second) for first, second in model["merges"]]
    return sorted(model["vocab"], key=model["vocab"].__getitem__), merges

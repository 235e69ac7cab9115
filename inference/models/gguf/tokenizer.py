"""The tokenizer in a GGUF file: byte-level BPE with the model's own way to split text, or SentencePiece's BPE."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from inference.models import fim_tokens
from inference.models.family import ModelError
from inference.models.gguf.header import DOWNLOAD_AGAIN, GgufFile

_KEY = "tokenizer.ggml"
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_QWEN2 = (rf"{_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_BLANKS}",)
_LLAMA3 = (rf"{_WORDS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_BLANKS}",)
_STARCODER = (r"\p{N}", _GPT2)
_SPLITS = {
    "qwen2": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "dbrx": (_LLAMA3[0],),  # a tuple of its own: Granite 4 merges inside whole words, and no token begins its prompts
    "seed-coder": (rf"{_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_BLANKS}",),
    "deepseek-coder": ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
    "gpt-2": (_GPT2,),
    "smollm": _STARCODER,
    "starcoder": _STARCODER,
    "refact": _STARCODER,
}
"""Where text is cut before its parts become tokens, one pattern after the other, by llama.cpp's name for it."""
_GEMMA, _GEMMA_TURN = "gemma4", "<turn|>"
_GEMMA_CONTROL = re.compile(r"<\|[^<>|]+\|?>|<[^<>|]+\|>")
_BEGIN_BY_THEMSELVES = (*(name for name, split in _SPLITS.items() if split is _LLAMA3), "llama", _GEMMA)
"""Prompts of these begin with a token for that, unless the file says otherwise."""
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_SPACE = "\u2581"
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def read_tokenizer(file: GgufFile) -> Tokenizer:
    """Reads the tokenizer of a file. Its control tokens and its FIM tokens are special. Raises ModelError."""
    kind, split = (str(file.metadata.get(f"{_KEY}.{key}", ""))[:40] for key in ("model", "pre"))
    if kind not in ("llama", _GEMMA) and (kind != "gpt2" or split not in _SPLITS):
        supported = ", ".join(map(repr, _SPLITS))
        raise ModelError(
            f"{file.path}: its tokenizer ({kind!r}, {split!r}) is not known; 'llama' and '{_GEMMA}' are, and 'gpt2' "
            f"with {supported}"
        )
    tokens = file.strings(f"{_KEY}.tokens")
    types = file.numbers(f"{_KEY}.token_type")
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    if not tokens or len(vocabulary) < len(tokens) or len(types) != len(tokens):
        raise ModelError(f"{file.path}: its vocabulary is empty, has a token twice or lacks types; {DOWNLOAD_AGAIN}")
    family = fim_tokens.detect_fim_tokens(vocabulary)
    special = {token for token, type_ in zip(tokens, types, strict=True) if type_ == _CONTROL}
    special |= vocabulary.keys() & (family.control_tokens if family else ())  # which some files call text
    if _GEMMA_TURN in vocabulary:  # some files call its control tokens text, too
        special |= {token for token in vocabulary if _GEMMA_CONTROL.fullmatch(token)}
    own = {token for token, type_ in zip(tokens, types, strict=True) if type_ == _USER_DEFINED} - special
    try:
        if kind == "gpt2":
            tokenizer = byte_level_bpe(vocabulary, _merges(file), split)
        else:
            merges = _merges(file) if kind == _GEMMA else _merges_by_score(file, vocabulary, types, special)
            tokenizer = _sentencepiece(vocabulary, types, merges)
        _begin(tokenizer, file, tokens, by_itself=(split if kind == "gpt2" else kind) in _BEGIN_BY_THEMSELVES)
    except ModelError:
        raise
    except Exception as error:  # the library raises bare Exception for every problem
        raise ModelError(f"{file.path}: its tokens and merges make no tokenizer: {error}; {DOWNLOAD_AGAIN}") from error
    for names, is_special in ((special, True), (own, False)):
        ordered = sorted(names, key=vocabulary.__getitem__)
        added = [AddedToken(token, special=is_special, normalized=False) for token in ordered]
        tokenizer.add_special_tokens(added) if is_special else tokenizer.add_tokens(added)
    return tokenizer


def byte_level_bpe(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, ...]], split: str = "qwen2") -> Tokenizer:
    """Byte-level BPE, without a normaliser, so that no byte changes. Raises Exception if they do not fit."""
    patterns = _SPLITS[split]
    whole_words = patterns is _LLAMA3
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=whole_words))  # type: ignore[arg-type]
    parts: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def without_prefix_space(tokenizer: Tokenizer) -> Tokenizer:
    """Stops a SentencePiece tokenizer from adding a space before each text when encoding, and removing it again."""
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _merges(file: GgufFile) -> list[tuple[str, ...]]:
    merges = [tuple(line.split(" ")) for line in file.strings(f"{_KEY}.merges")]
    if any(len(pair) != 2 for pair in merges):
        raise ModelError(f"{file.path}: its merges are no pairs of tokens; {DOWNLOAD_AGAIN}")
    return merges


def _sentencepiece(
    vocabulary: Mapping[str, int], types: Sequence[float], merges: Sequence[tuple[str, ...]]
) -> Tokenizer:
    """BPE with byte fallback."""
    unknown = next((token for token, id_ in vocabulary.items() if types[id_] == _UNKNOWN), None)
    model = models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)  # type: ignore[arg-type]
    return without_prefix_space(Tokenizer(model))


def _merges_by_score(
    file: GgufFile, vocabulary: Mapping[str, int], types: Sequence[float], special: Collection[str]
) -> list[tuple[str, ...]]:
    """Of pieces that have scores in place of merges."""
    scores = file.numbers(f"{_KEY}.scores")
    if len(scores) != len(vocabulary) or not vocabulary.keys() >= {*_BYTES}:
        raise ModelError(f"{file.path}: its vocabulary lacks scores, or tokens for single bytes; {DOWNLOAD_AGAIN}")
    pieces = [token for token, id_ in vocabulary.items() if types[id_] == _NORMAL and token not in special]
    text = {token: scores[vocabulary[token]] for token in pieces}
    return sorted(_pairs(text), key=lambda pair: (-text["".join(pair)], vocabulary[pair[0]], vocabulary[pair[1]]))


def _pairs(text: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Every pair of pieces whose concatenation is a piece itself."""
    for token in text:
        cuts = ((token[:offset], token[offset:]) for offset in range(1, len(token)))
        yield from (pair for pair in cuts if pair[0] in text and pair[1] in text)


def _begin(tokenizer: Tokenizer, file: GgufFile, tokens: Sequence[str], *, by_itself: bool) -> None:
    """A prompt's first token, where it has one: encoding "with special tokens" adds it."""
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    bos_id = file.metadata.get(f"{_KEY}.bos_token_id")
    if isinstance(bos_id, int) and 0 <= bos_id < len(tokens) and file.metadata.get(f"{_KEY}.add_bos_token", by_itself):
        name = tokens[bos_id]
        tokenizer.post_processor = processors.TemplateProcessing(single=[name, "$A"], special_tokens=[(name, bos_id)])

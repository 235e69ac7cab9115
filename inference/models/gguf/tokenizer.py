"""Makes the tokenizer that stands in a GGUF file: byte-level BPE, split as Qwen2 does."""

from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from inference.models.family import ModelError
from inference.models.gguf.header import GgufFile

_SPLITS: Final = {
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
}
"""By `tokenizer.ggml.pre`, how text is split before its pieces are merged."""
_CONTROL, _USER_DEFINED = 3, 4


def read(file: GgufFile) -> Tokenizer:
    """The tokenizer of a file; it has no normaliser, so that no byte changes. Raises ModelError."""
    kind, split = (str(file.metadata.get(f"tokenizer.ggml.{key}", ""))[:40] for key in ("model", "pre"))
    if kind != "gpt2" or split not in _SPLITS:
        raise ModelError(f"{file.path}: its tokenizer ({kind!r}, {split!r}) is not known; Qwen2's ('gpt2', 'qwen2') is")
    tokens, types = file.strings("tokenizer.ggml.tokens"), file.numbers("tokenizer.ggml.token_type")
    merges = [tuple(line.split(" ")) for line in file.strings("tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if not tokens or len(vocabulary) < len(tokens) or len(types) != len(tokens):
        raise ModelError(f"{file.path}: its vocabulary is empty, has a token twice or lacks types; download it again")
    if any(len(pair) != 2 for pair in merges):
        raise ModelError(f"{file.path}: its merges are no pairs of tokens; download it again")
    try:
        made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))  # type: ignore[arg-type]
    except Exception as error:  # the library raises bare Exception for every problem
        raise ModelError(f"{file.path}: its tokens and merges make no tokenizer: {error}; download it again") from error
    pieces = pre_tokenizers.Split(Regex(_SPLITS[split]), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([pieces, pre_tokenizers.ByteLevel(False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    named = [(token, type_) for token, type_ in zip(tokens, types, strict=True) if type_ in (_CONTROL, _USER_DEFINED)]
    made.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token, type_ in named if type_ == _CONTROL]
    )
    made.add_tokens(
        [AddedToken(token, special=False, normalized=False) for token, type_ in named if type_ == _USER_DEFINED]
    )
    return made

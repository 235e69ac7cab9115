"""The tokenizer of a masked-diffusion checkpoint, and the ids of its non-text tokens.

Dream's checkpoints have no tokenizer.json, because their own code makes their tokenizer: Qwen2's, from vocab.json,
merges.txt and the added tokens in tokenizer_config.json. This module does the same.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tokenizers import AddedToken, Tokenizer

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError
from inference.models.gguf.tokenizer import byte_level_bpe, without_prefix_space
from inference.models.infill_config import TokenId

_MASKS = ("<M>", "<|mask|>", "<mask>", "[MASK]")
_EXPAND = "<|expand|>"


class _AddedToken(msgspec.Struct):
    content: str


class _TokenizerFile(msgspec.Struct):
    """The part of tokenizer.json outside the vocabulary. Each entry is checked when it is needed, as few are."""

    added_tokens: list[Any] = []


class _Settings(msgspec.Struct):
    """tokenizer_config.json."""

    added_tokens_decoder: dict[str, Any] = {}
    add_bos_token: bool | None = None
    mask_token: str | _AddedToken | None = None
    bos_token: str | _AddedToken | None = None
    eos_token: str | _AddedToken | None = None


class SpecialTokenIds(NamedTuple):
    """Ids of special tokens; None if a checkpoint has no such token."""

    mask: int | None
    expand: int | None
    bos: int | None
    eos: int | None


def read_special_token_ids(folder: Path, config: Mapping[str, Any]) -> SpecialTokenIds:
    """The contents of the tokenizer's files and config.json. Raises ModelError if one cannot be read."""
    settings = _settings(folder)
    added = _added_tokens(folder)

    def named(token: str | _AddedToken | None) -> int | None:
        return added.get(token.content if isinstance(token, _AddedToken) else token or "")

    masks = (config.get("mask_token_id"), *map(named, (settings.mask_token, *_MASKS)))
    return SpecialTokenIds(
        mask=next((id_ for id_ in masks if type(id_) is int and id_ >= 0), None),  # True is an int, too
        expand=added.get(_EXPAND),
        bos=named(settings.bos_token),
        eos=named(settings.eos_token),
    )


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The checkpoint's tokenizer. All its added tokens are special: they are never text. Raises ModelError."""
    if checkpoint.gguf or (checkpoint.folder / "tokenizer.json").exists():
        tokenizer = checkpoint.tokenizer()
    else:
        tokenizer = checkpoint.check_tokenizer(_from_words(checkpoint.folder), checkpoint.folder / "vocab.json")
    added = tokenizer.get_added_tokens_decoder().values()
    tokenizer.add_special_tokens([AddedToken(token.content, special=True, normalized=False) for token in added])
    return without_prefix_space(tokenizer) if "ByteFallback" in repr(tokenizer.decoder) else tokenizer


def bos_ids(checkpoint: Checkpoint, tokenizer: Tokenizer) -> list[int]:
    """The tokens that a prompt begins with. Raises ModelError if a file that states them cannot be read."""
    settings = _Settings() if checkpoint.gguf else _settings(checkpoint.folder)
    if settings.add_bos_token is False:
        return []
    text = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    encoded = whole[: next((index for index in range(len(whole)) if whole[index : index + len(text)] == text), 0)]
    begin = read_special_token_ids(checkpoint.folder, checkpoint.config).bos if settings.add_bos_token else None
    return encoded or ([] if begin is None else [begin])


def _from_words(folder: Path) -> Tokenizer:
    try:
        vocabulary = checkpoint_files.read_json(folder / "vocab.json", checkpoint_files.TOKENIZER_LIMIT_BYTES)
        merges = checkpoint_files.read_file(folder / "merges.txt", checkpoint_files.TOKENIZER_LIMIT_BYTES).decode()
        pairs = [tuple(line.split(" ")) for line in merges.splitlines() if line and not line.startswith("#version")]
        tokenizer = byte_level_bpe(vocabulary, pairs)
    except ModelError:
        raise
    except Exception as error:  # the library raises bare Exception for every problem of a file
        raise ModelError(f"{folder}: vocab.json and merges.txt make no tokenizer: {error}") from error
    for name, id_ in sorted(_added_tokens(folder).items(), key=lambda item: item[1]):
        if tokenizer.token_to_id(name) is None:
            tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False)])
        if tokenizer.token_to_id(name) != id_:
            raise ModelError(f"{folder / 'tokenizer_config.json'}: token {id_} leaves a gap in the vocabulary")
    return tokenizer


def _settings(folder: Path) -> _Settings:
    return checkpoint_files.read_struct(folder / "tokenizer_config.json", _Settings)


def _added_tokens(folder: Path) -> dict[str, int]:
    """The tokens outside the vocabulary, with their ids, from any file of the checkpoint that lists them.

    Leaves out invalid entries. Raises ModelError if a file cannot be read.
    """
    file = folder / "tokenizer.json"
    listed = checkpoint_files.read_struct(file, _TokenizerFile, checkpoint_files.TOKENIZER_LIMIT_BYTES).added_tokens
    entries = [(token.get("id"), token) for token in listed if isinstance(token, dict)]
    ids: dict[str, int] = {}
    for entry in (*entries, *_settings(folder).added_tokens_decoder.items()):
        with suppress(msgspec.ValidationError):
            id_, token = msgspec.convert(entry, tuple[TokenId, _AddedToken], strict=False)
            ids[token.content] = id_
    return ids

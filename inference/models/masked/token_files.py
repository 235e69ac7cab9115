"""The tokenizer of a masked-diffusion checkpoint, and the ids of its non-text tokens.

Dream's checkpoints have no tokenizer.json, because their own code makes their tokenizer: Qwen2's, from vocab.json,
merges.txt and the added tokens in tokenizer_config.json. This module does the same.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.checkpoint_files import read_json_if_any
from inference.models.family import ModelError
from inference.models.gguf.tokenizer import byte_level, without_first_space

_MASKS = ("<M>", "<|mask|>", "<mask>", "[MASK]")
_EXPAND = "<|expand|>"
_ID = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class NamedTokens:
    """Ids of special tokens; None if a checkpoint has no such token."""

    mask: int | None
    expand: int | None
    bos: int | None
    eos: int | None


def named_tokens(folder: Path, config: Mapping[str, Any]) -> NamedTokens:
    """The contents of the tokenizer's files and config.json. Raises ModelError if one cannot be read."""
    stated = read_json_if_any(folder / "tokenizer_config.json")
    added = dict(_added(folder))

    def named(key: str) -> int | None:
        value = stated.get(key)
        name = value.get("content") if isinstance(value, dict) else value
        return added.get(name) if isinstance(name, str) else None

    masks = [config.get("mask_token_id"), named("mask_token"), *(added.get(name) for name in _MASKS)]
    return NamedTokens(
        mask=next((id_ for id_ in masks if _is_id(id_)), None),
        expand=added.get(_EXPAND),
        bos=named("bos_token"),
        eos=named("eos_token"),
    )


def tokenizer(found: Checkpoint) -> Tokenizer:
    """The checkpoint's tokenizer. All its added tokens are special: they are never text. Raises ModelError."""
    if found.gguf or (found.folder / "tokenizer.json").exists():
        made = found.tokenizer()
    else:
        made = found.checked(_from_words(found.folder), found.folder / "vocab.json")
    added = made.get_added_tokens_decoder().values()
    made.add_special_tokens([AddedToken(token.content, special=True, normalized=False) for token in added])
    return without_first_space(made) if "ByteFallback" in repr(made.decoder) else made


def begin_ids(found: Checkpoint, tokenizer: Tokenizer) -> list[int]:
    """The tokens that a prompt begins with. Raises ModelError if a file that states them cannot be read."""
    stated = {} if found.gguf else read_json_if_any(found.folder / "tokenizer_config.json")
    if stated.get("add_bos_token") is False:
        return []
    text = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    begun = whole[: next((at for at in range(len(whole)) if whole[at : at + len(text)] == text), 0)]
    begin = named_tokens(found.folder, found.config).bos if stated.get("add_bos_token") else None
    return begun or ([] if begin is None else [begin])


def _from_words(folder: Path) -> Tokenizer:
    try:
        vocabulary = checkpoint_files.read_json(folder / "vocab.json", checkpoint_files.TOKENIZER_LIMIT_BYTES)
        merges = checkpoint_files.read(folder / "merges.txt", checkpoint_files.TOKENIZER_LIMIT_BYTES).decode()
        pairs = [tuple(line.split(" ")) for line in merges.splitlines() if line and not line.startswith("#version")]
        made = byte_level(vocabulary, pairs)
    except ModelError:
        raise
    except Exception as error:  # the library raises bare Exception for every problem of a file
        raise ModelError(f"{folder}: vocab.json and merges.txt make no tokenizer: {error}") from error
    for name, id_ in sorted(_added(folder), key=lambda item: item[1]):
        if made.token_to_id(name) is None:
            made.add_special_tokens([AddedToken(name, special=True, normalized=False)])
        if made.token_to_id(name) != id_:
            raise ModelError(f"{folder / 'tokenizer_config.json'}: token {id_} leaves a gap in the vocabulary")
    return made


def _added(folder: Path) -> Iterator[tuple[str, int]]:
    """The tokens outside the vocabulary, with their ids, wherever a checkpoint states them."""
    tokens = read_json_if_any(folder / "tokenizer.json", checkpoint_files.TOKENIZER_LIMIT_BYTES).get("added_tokens")
    for token in tokens if isinstance(tokens, list) else ():
        if isinstance(token, dict) and isinstance(token.get("content"), str) and _is_id(token.get("id")):
            yield token["content"], token["id"]
    tokens = read_json_if_any(folder / "tokenizer_config.json").get("added_tokens_decoder")
    for id_, token in tokens.items() if isinstance(tokens, dict) else ():
        if isinstance(token, dict) and isinstance(token.get("content"), str) and _ID.fullmatch(id_):
            yield token["content"], int(id_)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

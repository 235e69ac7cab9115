"""Finds the folder or file for a model's name, and checks that it is safe to load.

Accepts only safetensors and GGUF, and never runs code from a checkpoint. This module knows a checkpoint's files but not
their meaning to a family.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from inference.models import catalogue, checkpoint_files, model_store
from inference.models.catalogue import EMBEDDED
from inference.models.checkpoint_files import MAX_SIZE
from inference.models.family import ModelError
from inference.models.gguf import header
from inference.models.gguf.architectures import hub_config, hub_tensors
from inference.models.gguf.header import GgufFile
from inference.models.gguf.tokenizer import read_tokenizer
from inference.models.infill_config import InfillConfig

_EMBEDDED_FOLDER = Path(__file__).resolve().parent.parent / "embedded"
_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "mask_token_id")


@dataclass(frozen=True)
class Checkpoint:
    """A folder, or the GGUF file in it, that passed the checks.

    `config` is the content of config.json, or its equivalent from a GGUF file.
    """

    name: str
    folder: Path
    config: dict[str, Any]
    infill_config: InfillConfig
    gguf: GgufFile | None = None

    @property
    def model_type(self) -> str:
        return str(self.config["model_type"])

    @property
    def config_file(self) -> Path:
        """The file that describes the model: config.json, or the GGUF file."""
        return self.gguf.path if self.gguf else self.folder / "config.json"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight, by the hub's name for it. Reads headers alone. Raises ModelError."""
        tensors = hub_tensors(self.gguf) if self.gguf else checkpoint_files.stored_tensors(self.folder)
        return {name: tensor.shape for name, tensor in tensors.items()}

    def tokenizer(self) -> Tokenizer:
        """Reads the tokenizer. Raises ModelError if it is unreadable or of a kind whose tokens have no bytes."""
        if self.gguf:
            return self.check_tokenizer(read_tokenizer(self.gguf), self.gguf.path)
        file = self.folder / "tokenizer.json"
        try:
            content = checkpoint_files.read_file(file, checkpoint_files.TOKENIZER_LIMIT_BYTES)
            tokenizer = Tokenizer.from_buffer(content)
        except ModelError:
            raise
        except Exception as error:  # the library raises bare Exception for every problem of the file
            raise ModelError(f"{file} cannot be used: {error}") from error
        return self.check_tokenizer(tokenizer, file)

    def check_token_ids(self) -> None:
        """Raises ModelError if one of the files names a token id beyond the vocabulary."""
        size = self._vocabulary_size
        own = self.folder / "infill.json"
        prefix = "" if self._described is self.config else "text_config."
        listed: dict[str, Any] = {f"{prefix}{key}": self._described.get(key) for key in _TOKEN_IDS}
        if self.gguf:
            listed = {key: value for key, value in self.gguf.metadata.items() if key.endswith("_token_id")}
        found = [(self.config_file, key, value) for key, value in listed.items()]
        keys = (key for key in InfillConfig.__struct_fields__ if key.endswith("_token_id"))
        found += [(own if own.exists() else self.config_file, key, getattr(self.infill_config, key)) for key in keys]
        for file, key, value in found:
            for token in value if isinstance(value, list) else [value]:
                is_id = isinstance(token, int) and not isinstance(token, bool) and 0 <= token < (size or MAX_SIZE)
                if not (is_id or token is None or (token == -1 and key.endswith("pad_token_id"))):  # none
                    reason = f"{str(token)[:40]} is not a token of a vocabulary of {size}"
                    raise ModelError(f"{file}: {key}: {reason}; download the model again")

    def check_tokenizer(self, tokenizer: Tokenizer, file: Path) -> Tokenizer:
        """Returns the tokenizer read from `file`. Raises ModelError if it does not fit the model."""
        if not re.search("ByteLevel|ByteFallback", repr(tokenizer.decoder)):
            raise ModelError(f"{file}: neither a byte-level nor a byte-fallback tokenizer; its tokens have no bytes")
        last = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
        size = self._vocabulary_size
        if size is not None and last >= size:
            raise ModelError(f"{file}: token {last} is not in the model's vocabulary of {size}; download it again")
        return tokenizer

    @property
    def _vocabulary_size(self) -> int | None:
        """How many tokens the model knows, if config.json says so in the usual place."""
        size = self._described.get("vocab_size")
        return size if isinstance(size, int) else None

    @property
    def _described(self) -> dict[str, Any]:
        """The part of config.json about text."""
        text = self.config.get("text_config")
        return text if isinstance(text, dict) else self.config


DefaultInfillConfig = Callable[[Path, dict[str, Any]], InfillConfig]
"""Maps a checkpoint's folder and config.json to the family's settings for a checkpoint without `infill.json`."""


def find_checkpoint(model: str, families: Mapping[str, DefaultInfillConfig]) -> Checkpoint:
    """The checkpoint called `model`: a name of the catalogue, a folder, a GGUF file, or a hub id. Downloads nothing.

    `families` has the defaults of each `model_type` that can be loaded. Raises ModelError when the checkpoint is not
    there, cannot fill holes, or has no weights in a safe format.
    """
    folder = checkpoint_path(model)
    if file := _gguf_in(folder):  # the files beside it are ignored: the folder may belong to another program
        gguf = header.read_header(file)
        config = hub_config(gguf)
        return Checkpoint(model, file.parent, config, families[config["model_type"]](file, config), gguf)
    try:
        config = checkpoint_files.read_json(folder / "config.json")
    except FileNotFoundError:
        raise ModelError(f"{model}: {folder / 'config.json'} is missing; this is not a checkpoint folder") from None
    if (folder / "adapter_config.json").exists():
        raise ModelError(f"{folder} holds an adapter (adapter_config.json); merge it into its model first")
    kind = str(config.get("model_type"))
    if kind not in families:
        usable = " or ".join(f"'{name}'" for name in families)
        raise ModelError(
            f"{model}: a '{kind}' model cannot fill holes; one that can has the model_type {usable} in its config.json"
        )
    if not (folder / "tokenizer.json").exists() and not (folder / "merges.txt").exists():
        raise ModelError(f"{model}: tokenizer.json is missing from {folder}; download the checkpoint again")
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{model}: no *.safetensors in {folder}; other weight formats can run code and are refused")
    infill_config = read_infill_config(folder)
    if infill_config is None:  # what the family assumes, unless the catalogue knows better
        record = model_store.read_record(folder)
        entry = catalogue.find_entry(record.repo if record else model)
        assumed = msgspec.to_builtins(families[kind](folder, config))
        infill_config = msgspec.convert({**assumed, **(entry.infill if entry else {})}, InfillConfig)
    return Checkpoint(model, folder, config, infill_config)


def _gguf_in(path: Path) -> Path | None:
    """`path` if it is a GGUF file, or the only GGUF file of a folder without other weights; else None."""
    if not path.is_dir() and (path.is_file() or path.suffix.lower() == header.EXTENSION):
        return path
    if (path / "config.json").exists():
        return None
    files = sorted(file for file in path.glob(f"*{header.EXTENSION}") if header.part_number(file) < 2)
    if len(files) > 1:
        raise ModelError(f"{path} holds {len(files)} *.gguf files; give one of them, such as {files[0]}")
    return files[0] if files else None


def checkpoint_path(model: str) -> Path:
    """The folder or GGUF file for a name, which a folder of that name never replaces. Raises ModelError."""
    if model == EMBEDDED:
        return _EMBEDDED_FOLDER
    folder = Path(model).expanduser()
    is_gguf = folder.suffix.lower() == header.EXTENSION or folder.is_file()
    if not catalogue.is_name_or_hub_id(model) and (folder.is_dir() or is_gguf):
        return model_store.real_path(folder)
    try:
        if not catalogue.find_entry(model) and not catalogue.is_hub_id(model):
            raise ModelError(
                f"{model}: no such model; give a name that `infill-ls models` shows, a checkpoint folder, a "
                ".gguf file, or a hub id like owner/name"
            )
        return model_store.require_model(model)
    except ModelError as error:
        if catalogue.is_name_or_hub_id(model) and (folder.is_dir() or (is_gguf and folder.exists())):
            kind = "file" if is_gguf else "folder"
            raise ModelError(f"{error}; for the {kind} of this name here write ./{model}") from error
        raise


def read_infill_config(folder: Path) -> InfillConfig | None:
    """The content of `infill.json`; None if there is none. Raises ModelError."""
    file = folder / "infill.json"
    try:
        return checkpoint_files.parse_struct(file, checkpoint_files.read_json(file), InfillConfig)
    except FileNotFoundError:
        return None

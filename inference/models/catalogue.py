"""The published models that infill-ls knows by name, from `catalogue.toml`. The language server imports this."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EMBEDDED = "embedded"
"""The name of the small checkpoint that ships with the package."""
AUTO = "auto"
"""The best downloaded model that runs well on this machine, otherwise the embedded one."""
FREE_LICENCES = ("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause")
"""Licences without conditions worth asking a user about."""

_BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "8bit": 8}
_PACKED_BITS, _OTHER_BITS = 5, 10.2
"""Bits per weight in a model of 4 bits: of a packed weight with its share of scale and bias, and of all others."""
OWN_BITS = "its own bits"
"""The dtype of a GGUF file's weights if they keep their bits: then they take `_OWN_BITS` times the file's size."""
_OWN_BITS = 1.14
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?")


@dataclass(frozen=True)
class PublishedScore:
    """A published score in percent, what it counts (`protocol`; only equal ones can be compared), and the score if the
    model is told the hole's length.
    """

    percent: float
    protocol: str
    source: str
    length_told_percent: float | None = None


@dataclass(frozen=True)
class OnlyFile:
    """The only file to fetch from a repository.

    Without a hash it is not pinned: a pull takes revision, size and hash from the hub, and `bytes_` is about right.
    """

    name: str
    bytes_: int
    revision: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class CatalogueEntry:
    """A model on a hub, or the embedded one.

    `family` is the folder in inference/models that runs it. 4 bits pack `packed_parameters`, 8 bits all.
    `infill` holds keys of `infill.json` for a checkpoint without it. A pull shows the hub's current licence. Models
    that are not `is_tried` run by their published shape; nobody has tried their weights here, so none is recommended.
    `edit_kind` is the prompt (`EditKind`) of an edit model, which fills no holes; empty: it is none.
    """

    name: str
    repo: str
    about: str
    licence: str
    family: str
    parameters: float
    packed_parameters: float
    stored_bits: float = 16.0
    quality: PublishedScore | None = None
    infill: Mapping[str, Any] = field(default_factory=dict)
    file: OnlyFile | None = None
    is_tried: bool = True
    edit_kind: str = ""

    @property
    def download_bytes(self) -> float:
        """The disk space of its weights; 0 if it ships with the package."""
        if self.file:
            return self.file.bytes_
        return self.parameters * self.stored_bits / 8 if self.repo else 0.0

    @property
    def is_gguf(self) -> bool:
        return self.file is not None or self.stored_bits < 16

    @property
    def weights_per_pass(self) -> float:
        """How many weights a pass reads: those of the layers, and about half of the two embeddings'."""
        return (self.packed_parameters + self.parameters) / 2

    def weight_bytes(self, dtype: str) -> float:
        """The memory of its weights in this dtype, in bytes."""
        if dtype == OWN_BITS:
            return self.download_bytes * _OWN_BITS
        if dtype == "4bit":
            return (
                self.packed_parameters * _PACKED_BITS + (self.parameters - self.packed_parameters) * _OTHER_BITS
            ) / 8
        return self.parameters * _BITS[dtype] / 8


def _entry(fields: dict[str, Any]) -> CatalogueEntry:
    """An entry of the file. An absent key stands for the field's default."""
    quality, file = fields.pop("quality", None), fields.pop("file", None)
    return CatalogueEntry(**fields, quality=quality and PublishedScore(**quality), file=file and OnlyFile(**file))


_TABLE = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
ENTRIES = tuple(map(_entry, _TABLE["models"]))

_BY_NAME = {key.lower(): entry for entry in ENTRIES for key in (entry.name, entry.repo) if key}


MODEL_FOR_NEW_USERS = "qwen2.5-coder-0.5b"
"""The model for a new user: it runs on any laptop."""


def find_entry(model: str) -> CatalogueEntry | None:
    """The model with this name or hub id, ignoring case; None if there is none."""
    return _BY_NAME.get(model.lower())


def is_name_or_hub_id(model: str) -> bool:
    """Whether `model` looks like a name in this table or a hub id: then it never means a folder.

    A folder is written `./word` or `word/`. The hub allows 96 characters on each side of the slash.
    """
    return len(model) <= 200 and bool(_NAME.fullmatch(model))


def is_hub_id(model: str) -> bool:
    """Whether `model` looks like owner/name."""
    return "/" in model and is_name_or_hub_id(model)


def entry_named(name: str) -> CatalogueEntry:
    return _BY_NAME[name]

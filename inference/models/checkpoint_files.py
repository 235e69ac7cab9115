"""Reads a checkpoint's files as untrusted input: regular files of a limited size, JSON, headers of safetensors.

A folder may come from anywhere. A pipe would block forever, and a header may claim any size, so everything is checked
before it is read or memory is allocated. Errors name the file.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from inference.models.family import ModelError

JSON_LIMIT_BYTES = 4 << 20
"""config.json and similar files have some kilobytes."""
INDEX_LIMIT_BYTES = 64 << 20
TOKENIZER_LIMIT_BYTES = 256 << 20
MAX_SIZE = 1 << 48

INDEX = "model.safetensors.index.json"
_Kind = TypeVar("_Kind")
NumLayers = Annotated[int, Meta(ge=1, le=512)]
NumHeads = Annotated[int, Meta(ge=1, le=1024)]
VocabularySize = Annotated[int, Meta(ge=8, le=1 << 22)]
"""Limits for the sizes in config.json: several times any published model's."""


class _Index(msgspec.Struct):
    """The file of each tensor."""

    weight_map: Annotated[dict[str, str], Meta(min_length=1)]


class StoredTensor(NamedTuple):
    """A tensor as the header of its file describes it."""

    file: Path
    shape: tuple[int, ...]


@contextmanager
def open_regular_file(file: Path) -> Iterator[BinaryIO]:
    """Opens a regular file for reading. Raises FileNotFoundError, or ModelError if it is not regular or unreadable."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            _require_regular(file, os.fstat(descriptor))
            yield stream
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # beside a GGUF file, which is the whole checkpoint
        raise FileNotFoundError(error.errno, error.strerror, str(file)) from error
    except OSError as error:
        reason = "it is a folder" if file.is_dir() else error.strerror
        raise ModelError(f"{file} cannot be read: {reason}") from error


def read_file(file: Path, limit_bytes: int) -> bytes:
    """Reads a regular file. Raises FileNotFoundError, or ModelError if it is not regular, too large or unreadable."""
    with open_regular_file(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > limit_bytes:
            raise ModelError(f"{file} has {size} bytes, more than the {limit_bytes} that it may have")
        return stream.read(limit_bytes + 1)


def read_json(file: Path, limit_bytes: int = JSON_LIMIT_BYTES) -> dict[str, Any]:
    """The JSON object in a file. Raises FileNotFoundError or ModelError."""
    try:
        value = json.loads(read_file(file, limit_bytes))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ModelError(f"{file} cannot be read: {reason}; download it again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{file} is not a JSON object; download it again")
    return value


def read_struct(file: Path, kind: type[_Kind], limit_bytes: int = JSON_LIMIT_BYTES) -> _Kind:
    """The JSON object in a file as a struct; a missing file counts as an empty object. Raises ModelError."""
    try:
        return parse_struct(file, read_json(file, limit_bytes), kind)
    except FileNotFoundError:
        return parse_struct(file, {}, kind)


def parse_struct(file: Path, content: Mapping[str, Any], kind: type[_Kind]) -> _Kind:
    """The content of a file as a struct. Raises ModelError if a value makes no sense: "FILE: a.b: Expected `int`"."""
    try:
        return msgspec.convert(content, kind, str_keys=True)
    except msgspec.ValidationError as error:
        reason, _, location = str(error).partition(" - at `$")
        key = location.rstrip("`").lstrip(".")
        raise ModelError(f"{file}: {key}: {reason}" if key else f"{file}: {reason}") from error


def require(holds: bool, otherwise: str) -> None:
    """Checks a value of a struct that `parse_struct` parses. Raises ValueError with the text `otherwise`."""
    if not holds:
        raise ValueError(otherwise)


def first_error_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """The tensors of a folder, by name, from the headers of its safetensors, which that library checks.

    Raises ModelError, also if two files have a tensor of one name.
    """
    from safetensors import SafetensorError, safe_open  # here, as the language server imports this module

    tensors: dict[str, StoredTensor] = {}
    for file in weight_files(folder):
        try:
            with safe_open(file, "np") as opened:
                slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping
                in_file = {name: StoredTensor(file, tuple(s.get_shape())) for name, s in slices.items()}
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file} is damaged: {first_error_line(error)}; download it again") from error
        for name in in_file.keys() & tensors.keys():
            also = tensors[name].file.name
            raise ModelError(f"{file}: {name[:200]} is in {also} as well; download the checkpoint again")
        tensors |= in_file
    return tensors


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder: one, or those that the index names. Raises ModelError if one is missing."""
    files = [folder / "model.safetensors"]
    if not files[0].exists():
        if not (folder / INDEX).exists():
            raise ModelError(f"{folder}: neither model.safetensors nor {INDEX} is there; download the checkpoint again")
        files = []
        for name in dict.fromkeys(read_struct(folder / INDEX, _Index, INDEX_LIMIT_BYTES).weight_map.values()):
            if Path(name).name != name or "\\" in name or "\0" in name or not name.endswith(".safetensors"):
                raise ModelError(
                    f"{folder / INDEX}: weight_map: {name[:200]!r} is not a *.safetensors file of this folder"
                )
            if not (folder / name).exists():
                raise ModelError(f"{folder / INDEX}: weight_map: {name} is missing; download the checkpoint again")
            files.append(folder / name)
    for file in files:
        _require_regular(file, file.stat())
    return tuple(files)


def _require_regular(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{file} is not a regular file; give a folder with a downloaded checkpoint")

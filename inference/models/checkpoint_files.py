"""Reads a checkpoint's files as untrusted input: regular files of a limited size, JSON, headers of safetensors.

A folder may come from anywhere. A pipe would block for ever, and a header may claim any size; so everything is checked
before it is read or gets memory. Errors name the file.
"""

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from inference.models.family import ModelError

JSON_LIMIT_BYTES = 4 << 20
"""config.json and similar files have some kilobytes."""
INDEX_LIMIT_BYTES = 64 << 20
TOKENIZER_LIMIT_BYTES = 256 << 20
HEADER_LIMIT_BYTES = 16 << 20
"""A safetensors header has some hundred bytes for each tensor."""
MAX_DIMENSIONS = 8
MAX_SIZE = 1 << 48

INDEX = "model.safetensors.index.json"
_Kind = TypeVar("_Kind")
Layers = Annotated[int, Meta(ge=1, le=512)]
Heads = Annotated[int, Meta(ge=1, le=1024)]
Vocabulary = Annotated[int, Meta(ge=8, le=1 << 22)]
"""Limits for the sizes in config.json: several times any published model's."""
_SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
"""Bytes of one element, by the name of its dtype in a header."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor's header entry: its shape, and its bytes `[begin, end)` behind the header."""

    shape: tuple[int, ...]
    begin: int
    end: int


class _Entry(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read(file: Path, limit_bytes: int) -> bytes:
    """The content of a regular file. Raises FileNotFoundError, or ModelError if it is none, too large or unreadable."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(stream.fileno())
            _require_regular(file, found)
            if found.st_size > limit_bytes:
                raise ModelError(f"{file} has {found.st_size} bytes, more than the {limit_bytes} that it may have")
            return stream.read(limit_bytes + 1)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # beside a GGUF file, which is the whole checkpoint
        raise FileNotFoundError(error.errno, error.strerror, str(file)) from error
    except OSError as error:
        reason = "it is a folder" if file.is_dir() else error.strerror
        raise ModelError(f"{file} cannot be read: {reason}") from error


def read_json(file: Path, limit_bytes: int = JSON_LIMIT_BYTES) -> dict[str, Any]:
    """The JSON object in a file. Raises FileNotFoundError or ModelError."""
    try:
        value = json.loads(read(file, limit_bytes))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ModelError(f"{file} cannot be read: {reason}; download it again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{file} is not a JSON object; download it again")
    return value


def read_json_if_any(file: Path, limit_bytes: int = JSON_LIMIT_BYTES) -> dict[str, Any]:
    """The same; empty if there is no such file."""
    try:
        return read_json(file, limit_bytes)
    except FileNotFoundError:
        return {}


def converted(file: Path, content: Mapping[str, Any], kind: type[_Kind]) -> _Kind:
    """The content of a file as a struct. Raises ModelError if a value makes no sense: "FILE: a.b: Expected `int`"."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$")
        key = place.rstrip("`").lstrip(".")
        raise ModelError(f"{file}: {key}: {words}" if key else f"{file}: {words}") from error


def first_line(error: BaseException) -> str:
    """What went wrong, briefly."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """The tensors of a folder, by name, from the headers of its safetensors. Raises ModelError."""
    return {name: tensor for name, (_, tensor) in placed_tensors(folder).items()}


def placed_tensors(folder: Path) -> dict[str, tuple[Path, StoredTensor]]:
    """The same, each with its file. Raises ModelError, also if two files have a tensor of one name."""
    found: dict[str, tuple[Path, StoredTensor]] = {}
    for file in weight_files(folder):
        for name, tensor in header(file).items():
            if name in found:
                also = found[name][0].name
                raise ModelError(f"{file}: {name[:200]} is in {also} as well; download the checkpoint again")
            found[name] = file, tensor
    return found


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder: one, or those that the index names. Raises ModelError if one is missing."""
    files = [folder / "model.safetensors"]
    if not files[0].exists():
        if not (folder / INDEX).exists():
            raise ModelError(f"{folder}: neither model.safetensors nor {INDEX} is there; download the checkpoint again")
        names = read_json(folder / INDEX, INDEX_LIMIT_BYTES).get("weight_map")
        if not isinstance(names, Mapping) or not names:
            raise ModelError(f"{folder / INDEX}: weight_map: expected an object with a file name for each tensor")
        files = [folder / _plain_name(folder, name) for name in dict.fromkeys(map(str, names.values()))]
    for file in files:
        _require_regular(file, file.stat())
    return tuple(files)


def _plain_name(folder: Path, name: str) -> str:
    if Path(name).name != name or "\\" in name or "\0" in name or not name.endswith(".safetensors"):
        raise ModelError(f"{folder / INDEX}: weight_map: {name[:200]!r} is no *.safetensors file of this folder")
    if not (folder / name).exists():
        raise ModelError(f"{folder / INDEX}: weight_map: {name} is missing; download the checkpoint again")
    return name


def _require_regular(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ModelError(f"{file} is no regular file; give a folder with a downloaded checkpoint")


def header(file: Path) -> dict[str, StoredTensor]:
    """The tensors of one safetensors file. Raises ModelError if the header contradicts itself or the file."""
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > size - 8:
                raise ModelError(
                    f"{file} is cut off: a header of {length} bytes in a file of {size}; download it again"
                )
            if length > HEADER_LIMIT_BYTES:
                raise ModelError(f"{file}: its header has {length} bytes, more than the {HEADER_LIMIT_BYTES} allowed")
            entries = json.loads(stream.read(length), object_pairs_hook=_without_repeats)
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file}: its header cannot be read: {error}; download it again") from error
    if not isinstance(entries, dict):
        raise ModelError(f"{file}: its header is no JSON object; download it again")
    entries.pop("__metadata__", None)
    found = dict(_tensors(file, entries, size - 8 - length))
    _require_disjoint(file, found)
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)[:200]} occurs twice")
    return found


def _tensors(file: Path, entries: Mapping[str, Any], data_bytes: int) -> Iterator[tuple[str, StoredTensor]]:
    for name, value in entries.items():
        try:
            entry = msgspec.convert(value, _Entry)
        except msgspec.ValidationError as error:
            raise ModelError(f"{file}: header of {name[:200]}: {error}") from error
        begin, end = entry.data_offsets
        if not 0 <= begin <= end <= data_bytes or _bytes_of(entry) not in (None, end - begin):
            raise ModelError(
                f"{file}: header of {name[:200]}: {entry.dtype[:9]} of shape {list(entry.shape)[:MAX_DIMENSIONS]} is "
                f"not at bytes {begin} to {end} of {data_bytes}; download the checkpoint again"
            )
        yield name, StoredTensor(entry.shape, begin, end)


def _bytes_of(entry: _Entry) -> int | None:
    """The size of a tensor in bytes; None if its dtype is not known, -1 if no memory could hold it."""
    if len(entry.shape) > MAX_DIMENSIONS or not all(0 <= size < MAX_SIZE for size in entry.shape):
        return -1
    size = _SIZES.get(entry.dtype)
    return None if size is None else math.prod(entry.shape) * size


def _require_disjoint(file: Path, tensors: Mapping[str, StoredTensor]) -> None:
    ends = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].begin):
        if tensor.begin < ends:
            raise ModelError(f"{file}: header of {name[:200]}: its bytes are those of another tensor as well")
        ends = max(ends, tensor.end)

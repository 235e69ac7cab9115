"""Reads a GGUF file as untrusted input: its header, which describes the model and each tensor, and its contents.

The format is ggml's, version 2 or 3: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Arrays, such as a
vocabulary of 150,000 tokens, are skipped here and read on request. What keys and names mean is in architectures.py.
"""

import os
import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from io import FileIO
from math import isfinite, prod
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from inference.models import checkpoint_files
from inference.models.family import ModelError

DOWNLOAD_AGAIN = "download it again"


class TensorType(NamedTuple):
    """A storage format of ggml: blocks of `block_size` numbers in `block_bytes` bytes."""

    name: str
    block_size: int
    block_bytes: int


TENSOR_TYPES: Final = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    30: TensorType("BF16", 1, 2),
}
"""By the number of ggml's `ggml_type`."""

STRING = 8
ARRAY = 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The format for `struct` of each metadata type, by its number."""

Scalar = str | int | float | bool


@dataclass(frozen=True)
class GgufTensor:
    """A tensor: its `shape`, in torch's order, and its bytes `[begin, end)` of the file at `path`."""

    path: Path
    shape: tuple[int, ...]
    type_: TensorType
    begin: int
    end: int


@dataclass(frozen=True)
class StoredArray:
    """The byte range of a metadata array in the file, checked to hold `count` items of this type."""

    type_: int
    count: int
    begin: int
    end: int


@dataclass(frozen=True)
class GgufFile:
    """A file whose header passed the checks. `metadata` has no arrays; `tensors` are keyed by ggml's names."""

    path: Path
    metadata: dict[str, Scalar]
    arrays: dict[str, StoredArray]
    tensors: dict[str, GgufTensor]

    def strings(self, key: str) -> list[str]:
        """Reads an array of strings; empty if there is none. Raises ModelError."""
        content = self._items(key, (STRING,), "texts")
        texts = []
        offset = 0
        try:
            while offset < len(content):
                (length,) = struct.unpack_from("<Q", content, offset)
                texts.append(content[offset + 8 : offset + 8 + length].decode())
                offset += 8 + length
        except (struct.error, UnicodeDecodeError, OverflowError) as error:
            raise ModelError(f"{self.path}: {key} cannot be read: {error}; {DOWNLOAD_AGAIN}") from error
        return texts

    def numbers(self, key: str) -> tuple[float, ...]:
        """Reads an array of finite numbers, integers or floats; empty if there is none. Raises ModelError."""
        content = self._items(key, SCALARS, "numbers")
        if not content:
            return ()
        array = self.arrays[key]
        values = struct.unpack(f"<{array.count}{SCALARS[array.type_]}", content)
        if not all(map(isfinite, values)):
            raise ModelError(f"{self.path}: {key} holds NaN or infinity; {DOWNLOAD_AGAIN}")
        return values

    def _items(self, key: str, types: Collection[int], content_name: str) -> bytes:
        """Reads the bytes of an array of one of these types; empty if there is none. Raises ModelError."""
        array = self.arrays.get(key)
        if array and array.type_ not in types:
            raise ModelError(f"{self.path}: {key} is no list of {content_name}; {DOWNLOAD_AGAIN}")
        if not array:
            return b""
        with open_file(self.path) as stream:
            return read_bytes(stream, array.begin, array.end)


def open_file(path: Path) -> FileIO:
    """Opens a file for `read_bytes`. Raises ModelError."""
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error


def read_bytes(stream: FileIO, begin: int, end: int) -> bytes:
    """Reads a range of bytes of an open file. Raises ModelError if they no longer exist."""
    try:
        stream.seek(begin)
        content = stream.read(end - begin)
    except OSError as error:
        raise ModelError(f"{stream.name!s} cannot be read: {error.strerror}") from error
    if len(content) < end - begin:
        raise ModelError(f"{stream.name!s} has become shorter since it was opened; load it again")
    return content


EXTENSION = ".gguf"
MAGIC = b"GGUF"
HEADER_LIMIT_BYTES = 128 << 20
"""The largest published vocabularies take some 15 MB."""
MAX_KEYS = 4096
MAX_TENSORS = 1 << 16
MAX_ARRAY_ITEMS = 1 << 22
MAX_NAME_BYTES = 256
MAX_STRING_BYTES = 1 << 20
MAX_DIMENSIONS = 4
MAX_ELEMENTS = 1 << 40
_CHUNK_BYTES = 4 << 20
_VERSIONS = (2, 3)
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


def part_number(path: Path) -> int:
    """The number of a part of a split model, by its file name, from 1; 0 for a whole model. Part 1 stands for all."""
    match = _PART.search(path.name)
    return int(match[1]) if match else 0


def later_parts(path: Path) -> Iterator[Path]:
    """The other files of a split model, by the name of its first."""
    match = _PART.search(path.name)
    count = int(match[2]) if match else 1
    names = (f"{_PART.sub('', path.name)}-{part:05}-of-{count:05}{EXTENSION}" for part in range(2, count + 1))
    return map(path.with_name, names)


def read_header(path: Path) -> GgufFile:
    """Reads the header of a file, with the tensors of all parts if it is the first of several.

    Raises ModelError if one is missing, no GGUF file, truncated, or contradicts itself.
    """
    first = _read_part(path)
    count = first.metadata.get("split.count", 1)
    if not isinstance(count, int) or count < 2:
        return first
    match = _PART.search(path.name)
    if match is None or int(match[1]) != 1 or int(match[2]) != count:
        raise ModelError(f"{path} is one of {count} parts of a model; give the first, NAME-00001-of-{count:05}.gguf")
    tensors = dict(first.tensors)
    for part in map(_read_part, later_parts(path)):
        if both := tensors.keys() & part.tensors.keys():
            raise ModelError(f"{part.path}: the tensor {min(both)} is in another part as well; {DOWNLOAD_AGAIN}")
        tensors |= part.tensors
    return replace(first, tensors=tensors)


def _read_part(path: Path) -> GgufFile:
    try:
        with checkpoint_files.open_regular_file(path) as stream:
            return _Reader(path, stream).file()
    except FileNotFoundError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; give a downloaded .gguf file") from error


class _Reader:
    """Reads a header from its first byte on. Raises ModelError for anything beyond the end of the file."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self._path = path
        self._stream = stream
        self._size = os.fstat(stream.fileno()).st_size
        self._bytes = bytearray()
        self._at = 0

    def file(self) -> GgufFile:
        tensors, keys = self._counts()
        metadata: dict[str, Scalar] = {}
        arrays: dict[str, StoredArray] = {}
        for _ in range(keys):
            key = self._name()
            value = self._value(key)
            if key in metadata or key in arrays:
                raise self._error(f"the key {key} occurs twice")
            if isinstance(value, StoredArray):
                arrays[key] = value
            else:
                metadata[key] = value
        located = list(self._tensors(tensors))
        return GgufFile(self._path, metadata, arrays, self._locate(located, metadata))

    def _counts(self) -> tuple[int, int]:
        if self._take(4) != MAGIC:
            raise ModelError(f"{self._path} is no GGUF file; give a .gguf file or a checkpoint folder")
        version = self._number("I")
        if version not in _VERSIONS:
            reason = "it is for big-endian machines" if version >= 1 << 16 else f"it is of version {version}"
            raise ModelError(f"{self._path}: {reason}; only GGUF of version 2 and 3 can be used; download a newer file")
        tensors, keys = self._number("Q"), self._number("Q")
        if tensors > MAX_TENSORS or keys > MAX_KEYS:
            raise self._error(f"it claims {tensors} tensors and {keys} keys")
        return tensors, keys

    def _value(self, key: str) -> Scalar | StoredArray:
        type_ = self._number("I")
        if type_ == STRING:
            return self._text(MAX_STRING_BYTES)
        if type_ == ARRAY:
            return self._array(key)
        if type_ not in SCALARS:
            raise self._error(f"{key} is of type {type_}, which GGUF does not have")
        (value,) = struct.unpack("<" + SCALARS[type_], self._take(struct.calcsize("<" + SCALARS[type_])))
        if isinstance(value, float) and not isfinite(value):
            raise self._error(f"{key} is {value}")
        return value  # type: ignore[no-any-return]

    def _array(self, key: str) -> StoredArray:
        type_ = self._number("I")
        count = self._number("Q")
        begin = self._at
        if count > MAX_ARRAY_ITEMS:
            raise self._error(f"{key} claims {count} items")
        if type_ in SCALARS:
            self._skip(count * struct.calcsize("<" + SCALARS[type_]))
        elif type_ == STRING:
            self._skip_texts(key, count)
        else:
            raise self._error(f"{key} is a list of items of type {type_}, which no model needs")
        return StoredArray(type_, count, begin, self._at)

    def _tensors(self, count: int) -> Iterator[tuple[str, GgufTensor]]:
        """Each with its place counted from the header's end. ggml's first dimension is torch's last."""
        for _ in range(count):
            name, dimensions = self._name(), self._number("I")
            if not 1 <= dimensions <= MAX_DIMENSIONS:
                raise self._error(f"{name} has {dimensions} dimensions")
            sizes = struct.unpack(f"<{dimensions}Q", self._take(8 * dimensions))
            type_id, offset = self._number("I"), self._number("Q")
            if type_id not in TENSOR_TYPES:
                supported = ", ".join(kind.name for kind in TENSOR_TYPES.values())
                raise ModelError(
                    f"{self._path}: {name} is quantised in a way (type {type_id}) that this release cannot read; "
                    f"download a file of another quantisation, such as Q4_K_M (it reads {supported})"
                )
            type_ = TENSOR_TYPES[type_id]
            if prod(sizes) > MAX_ELEMENTS or 0 in sizes or sizes[0] % type_.block_size:
                raise self._error(f"{name} cannot be of the sizes {list(sizes)} in {type_.name}")
            yield (
                name,
                GgufTensor(
                    self._path, sizes[::-1], type_, offset, offset + prod(sizes) // type_.block_size * type_.block_bytes
                ),
            )

    def _locate(self, tensors: list[tuple[str, GgufTensor]], metadata: dict[str, Scalar]) -> dict[str, GgufTensor]:
        """The tensors by name, each at its own place in the file."""
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 16 or alignment & (alignment - 1):
            raise self._error(f"general.alignment is {str(alignment)[:40]}, not a power of two")
        first = ends = -(-self._at // alignment) * alignment
        placed: dict[str, GgufTensor] = {}
        for name, tensor in sorted(tensors, key=lambda item: item[1].begin):
            moved = replace(tensor, begin=first + tensor.begin, end=first + tensor.end)
            if name in placed:
                raise self._error(f"the tensor {name} occurs twice")
            if tensor.begin % alignment or moved.end > self._size:
                raise self._error(f"{name} is not at bytes {moved.begin} to {moved.end} of {self._size}")
            if moved.begin < ends:
                raise self._error(f"the bytes of {name} are those of another tensor as well")
            ends = moved.end
            placed[name] = moved
        return placed

    def _name(self) -> str:
        name = self._text(MAX_NAME_BYTES)
        if not name.isprintable():
            raise self._error(f"it has a name with control characters: {name[:80]!a}")
        return name

    def _text(self, limit_bytes: int) -> str:
        length = self._number("Q")
        if length > limit_bytes:
            raise self._error(f"it claims a text of {length} bytes where {limit_bytes} are allowed")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise self._error(f"a text in its header is not UTF-8: {error}") from error

    def _number(self, format_: str) -> int:
        return int.from_bytes(self._take(struct.calcsize("<" + format_)), "little")

    def _take(self, count: int) -> bytes:
        begin = self._at
        self._skip(count)
        return bytes(self._bytes[begin : self._at])

    def _skip(self, count: int) -> None:
        if self._at + count > len(self._bytes):
            self._read_until(self._at + count)
        self._at += count

    def _skip_texts(self, key: str, count: int) -> None:
        """Skips an array of texts; a vocabulary has 150,000, so this loop is a tight one."""
        length_of, offset = struct.Struct("<Q").unpack_from, self._at
        for _ in range(count):
            if offset + 8 > len(self._bytes):
                self._read_until(offset + 8)
            (length,) = length_of(self._bytes, offset)
            if length > MAX_STRING_BYTES:
                raise self._error(f"{key} claims a text of {length} bytes")
            offset += 8 + length
        self._at = offset
        self._skip(0)

    def _read_until(self, end: int) -> None:
        """Reads up to `end`, without allocating memory for data that the file does not have."""
        if end > self._size:
            raise self._error(f"it is cut off: its header continues beyond its {self._size} bytes")
        if end > HEADER_LIMIT_BYTES:
            raise self._error(f"its header has more than the {HEADER_LIMIT_BYTES} bytes allowed")
        while len(self._bytes) < end:
            block = self._stream.read(_CHUNK_BYTES)
            if not block:
                raise self._error(f"it is cut off after {len(self._bytes)} bytes")
            self._bytes += block

    def _error(self, problem: str) -> ModelError:
        return ModelError(f"{self._path} is damaged or no model: {problem}; {DOWNLOAD_AGAIN}")

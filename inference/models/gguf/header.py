"""Reads a GGUF file as untrusted input: its header, which has metadata and the place of each tensor, and its contents.

The format is ggml's, version 2 or 3: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Arrays, such as a
vocabulary of 150,000 tokens, are skipped here and read on request. Knows no architecture.
"""

import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import FileIO
from math import isfinite, prod
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from inference.models import checkpoint_files
from inference.models.family import ModelError

AGAIN = "download it again"


class TensorType(NamedTuple):
    """How ggml stores numbers: in blocks of `weights` numbers and `bytes_` bytes."""

    name: str
    weights: int
    bytes_: int


TYPES: Final = {
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
    """A tensor: its `shape`, in torch's order, and its bytes `[begin, end)` of the file."""

    shape: tuple[int, ...]
    type_: TensorType
    begin: int
    end: int


@dataclass(frozen=True)
class StoredArray:
    """The place of a metadata array in the file, checked to be `count` items of this type."""

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
        """An array of strings; empty if there is none. Raises ModelError."""
        content = self._items(key, (STRING,), "texts")
        texts = []
        at = 0
        try:
            while at < len(content):
                (length,) = struct.unpack_from("<Q", content, at)
                texts.append(content[at + 8 : at + 8 + length].decode())
                at += 8 + length
        except (struct.error, UnicodeDecodeError, OverflowError) as error:
            raise ModelError(f"{self.path}: {key} cannot be read: {error}; {AGAIN}") from error
        return texts

    def numbers(self, key: str) -> tuple[float, ...]:
        """An array of finite numbers, whole or not; empty if there is none. Raises ModelError."""
        content = self._items(key, [type_ for type_, format_ in SCALARS.items() if format_ != "?"], "numbers")
        if not content:
            return ()
        found = self.arrays[key]
        values = struct.unpack(f"<{found.count}{SCALARS[found.type_]}", content)
        if not all(map(isfinite, values)):
            raise ModelError(f"{self.path}: {key} holds NaN or infinity; {AGAIN}")
        return values

    def _items(self, key: str, types: Collection[int], what: str) -> bytes:
        """The items of an array of one of these types; empty if there is none. Raises ModelError."""
        found = self.arrays.get(key)
        if found and found.type_ not in types:
            raise ModelError(f"{self.path}: {key} is no list of {what}; {AGAIN}")
        return self.bytes_at(found.begin, found.end) if found else b""

    def bytes_at(self, begin: int, end: int) -> bytes:
        """These bytes of the file. Raises ModelError if they no longer exist."""
        with self.opened() as stream:
            return self.read(stream, begin, end - begin)

    def opened(self) -> FileIO:
        """The file, to `read` from. Raises ModelError."""
        try:
            return self.path.open("rb", buffering=0)
        except OSError as error:
            raise ModelError(f"{self.path} cannot be read: {error.strerror}") from error

    def read(self, stream: FileIO, begin: int, count: int) -> bytes:
        """`count` bytes of the opened file. Raises ModelError if they no longer exist."""
        try:
            stream.seek(begin)
            content = stream.read(count)
        except OSError as error:
            raise ModelError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(content) < count:
            raise ModelError(f"{self.path} has become shorter since it was opened; load it again")
        return content


SUFFIX = ".gguf"
ARCHITECTURE = "general.architecture"
MAGIC = b"GGUF"
HEADER_LIMIT_BYTES = 128 << 20
"""The largest published vocabularies take some 15 MB."""
MAX_KEYS = 4096
MAX_TENSORS = 1 << 16
MAX_ITEMS = 1 << 22
MAX_NAME_BYTES = 256
MAX_STRING_BYTES = 1 << 20
MAX_DIMENSIONS = 4
MAX_SIZE = 1 << 40
_CHUNK_BYTES = 4 << 20
_VERSIONS = (2, 3)


def read(path: Path) -> GgufFile:
    """The header of a file. Raises ModelError if it is missing, no GGUF file, truncated, or contradicts itself."""
    try:
        with checkpoint_files.opened(path) as stream:
            return _Reader(path, stream).file()
    except FileNotFoundError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; give a downloaded {SUFFIX} file") from error


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
                raise self._wrong(f"the key {key} occurs twice")
            if isinstance(value, StoredArray):
                arrays[key] = value
            else:
                metadata[key] = value
        stated = list(self._tensors(tensors))
        return GgufFile(self._path, metadata, arrays, self._placed(stated, metadata))

    def _counts(self) -> tuple[int, int]:
        if self._take(4) != MAGIC:
            raise ModelError(f"{self._path} is no GGUF file; give a {SUFFIX} file or a checkpoint folder")
        version = self._number("I")
        if version not in _VERSIONS:
            reason = "it is for big-endian machines" if version >= 1 << 16 else f"it is of version {version}"
            raise ModelError(f"{self._path}: {reason}; only GGUF of version 2 and 3 can be used; download a newer file")
        tensors, keys = self._number("Q"), self._number("Q")
        if tensors > MAX_TENSORS or keys > MAX_KEYS:
            raise self._wrong(f"it claims {tensors} tensors and {keys} keys")
        return tensors, keys

    def _value(self, key: str) -> Scalar | StoredArray:
        type_ = self._number("I")
        if type_ == STRING:
            return self._text(MAX_STRING_BYTES)
        if type_ == ARRAY:
            return self._array(key)
        if type_ not in SCALARS:
            raise self._wrong(f"{key} is of type {type_}, which GGUF does not have")
        (value,) = struct.unpack("<" + SCALARS[type_], self._take(struct.calcsize("<" + SCALARS[type_])))
        if isinstance(value, float) and not isfinite(value):
            raise self._wrong(f"{key} is {value}")
        return value  # type: ignore[no-any-return]

    def _array(self, key: str) -> StoredArray:
        type_ = self._number("I")
        count = self._number("Q")
        begin = self._at
        if count > MAX_ITEMS:
            raise self._wrong(f"{key} claims {count} items")
        if type_ in SCALARS:
            self._skip(count * struct.calcsize("<" + SCALARS[type_]))
        elif type_ == STRING:
            self._skip_texts(key, count)
        else:
            raise self._wrong(f"{key} is a list of items of type {type_}, which no model needs")
        return StoredArray(type_, count, begin, self._at)

    def _tensors(self, count: int) -> Iterator[tuple[str, tuple[int, ...], TensorType, int]]:
        """Name, shape, type and offset of each. ggml's first dimension is torch's last."""
        for _ in range(count):
            name, dimensions = self._name(), self._number("I")
            if not 1 <= dimensions <= MAX_DIMENSIONS:
                raise self._wrong(f"{name} has {dimensions} dimensions")
            sizes = struct.unpack(f"<{dimensions}Q", self._take(8 * dimensions))
            number, offset = self._number("I"), self._number("Q")
            if number not in TYPES:
                known = ", ".join(one.name for one in TYPES.values())
                raise ModelError(
                    f"{self._path}: {name} is quantised in a way (type {number}) that this release cannot read; "
                    f"download a file of another quantisation, such as Q4_K_M (it reads {known})"
                )
            if prod(sizes) > MAX_SIZE or 0 in sizes or sizes[0] % TYPES[number].weights:
                raise self._wrong(f"{name} cannot be of the sizes {list(sizes)} in {TYPES[number].name}")
            yield name, sizes[::-1], TYPES[number], offset

    def _placed(
        self, stated: list[tuple[str, tuple[int, ...], TensorType, int]], metadata: dict[str, Scalar]
    ) -> dict[str, GgufTensor]:
        """The tensors by name, each at its own place in the file."""
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 16 or alignment & (alignment - 1):
            raise self._wrong(f"general.alignment is {str(alignment)[:40]}, not a power of two")
        first = -(-self._at // alignment) * alignment
        placed: dict[str, GgufTensor] = {}
        for name, shape, type_, offset in stated:
            begin = first + offset
            end = begin + prod(shape) // type_.weights * type_.bytes_
            if name in placed:
                raise self._wrong(f"the tensor {name} occurs twice")
            if offset % alignment or end > self._size:
                raise self._wrong(f"{name} is not at bytes {begin} to {end} of {self._size}")
            placed[name] = GgufTensor(shape, type_, begin, end)
        ends = 0
        for name, tensor in sorted(placed.items(), key=lambda item: item[1].begin):
            if tensor.begin < ends:
                raise self._wrong(f"the bytes of {name} are those of another tensor as well")
            ends = tensor.end
        return placed

    def _name(self) -> str:
        name = self._text(MAX_NAME_BYTES)
        if not name.isprintable():
            raise self._wrong(f"it has a name with control characters: {name[:80]!a}")
        return name

    def _text(self, limit_bytes: int) -> str:
        length = self._number("Q")
        if length > limit_bytes:
            raise self._wrong(f"it claims a text of {length} bytes where {limit_bytes} are allowed")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise self._wrong(f"a text in its header is not UTF-8: {error}") from error

    def _number(self, format_: str) -> int:
        return int.from_bytes(self._take(struct.calcsize("<" + format_)), "little")

    def _take(self, count: int) -> bytes:
        at = self._at
        self._skip(count)
        return bytes(self._bytes[at : self._at])

    def _skip(self, count: int) -> None:
        if self._at + count > len(self._bytes):
            self._reach(self._at + count)
        self._at += count

    def _skip_texts(self, key: str, count: int) -> None:
        """Skips an array of texts; a vocabulary has 150,000, so this loop is a tight one."""
        length_of, at = struct.Struct("<Q").unpack_from, self._at
        for _ in range(count):
            if at + 8 > len(self._bytes):
                self._reach(at + 8)
            (length,) = length_of(self._bytes, at)
            if length > MAX_STRING_BYTES:
                raise self._wrong(f"{key} claims a text of {length} bytes")
            at += 8 + length
        self._at = at
        self._skip(0)

    def _reach(self, end: int) -> None:
        """Reads on until `end`. Reserves nothing for data that the file does not have."""
        if end > self._size:
            raise self._wrong(f"it is cut off: its header continues beyond its {self._size} bytes")
        if end > HEADER_LIMIT_BYTES:
            raise self._wrong(f"its header has more than the {HEADER_LIMIT_BYTES} bytes allowed")
        while len(self._bytes) < end:
            block = self._stream.read(_CHUNK_BYTES)
            if not block:
                raise self._wrong(f"it is cut off after {len(self._bytes)} bytes")
            self._bytes += block

    def _wrong(self, what: str) -> ModelError:
        return ModelError(f"{self._path} is damaged or no model: {what}; {AGAIN}")

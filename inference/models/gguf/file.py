"""The contents of a GGUF file: its metadata, arrays and tensors. Long ones are read on request."""

import struct
from dataclasses import dataclass
from io import FileIO
from math import isfinite
from pathlib import Path
from typing import Final, NamedTuple

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
    size_bytes: int
    metadata: dict[str, Scalar]
    arrays: dict[str, StoredArray]
    tensors: dict[str, GgufTensor]

    def strings(self, key: str) -> list[str]:
        """An array of strings; empty if there is none. Raises ModelError."""
        if key not in self.arrays:
            return []
        found = self.arrays[key]
        if found.type_ != STRING:
            raise ModelError(f"{self.path}: {key} is no list of texts; {AGAIN}")
        content = self.bytes_at(found.begin, found.end)
        at = 0
        texts = []
        try:
            for _ in range(found.count):
                (length,) = struct.unpack_from("<Q", content, at)
                texts.append(content[at + 8 : at + 8 + length].decode())
                at += 8 + length
        except (struct.error, UnicodeDecodeError, OverflowError) as error:
            raise ModelError(f"{self.path}: {key} cannot be read: {error}; {AGAIN}") from error
        return texts

    def numbers(self, key: str) -> tuple[int, ...]:
        """An array of whole numbers; empty if there is none. Raises ModelError."""
        if key not in self.arrays:
            return ()
        found = self.arrays[key]
        format_ = SCALARS.get(found.type_, "f")
        if format_ in "fd?":
            raise ModelError(f"{self.path}: {key} is no list of whole numbers; {AGAIN}")
        return struct.unpack(f"<{found.count}{format_}", self.bytes_at(found.begin, found.end))

    def floats(self, key: str) -> tuple[float, ...]:
        """An array of finite numbers; empty if there is none. Raises ModelError."""
        if key not in self.arrays:
            return ()
        found = self.arrays[key]
        if (format_ := SCALARS.get(found.type_, "?")) not in "fd":
            raise ModelError(f"{self.path}: {key} is no list of numbers; {AGAIN}")
        values = struct.unpack(f"<{found.count}{format_}", self.bytes_at(found.begin, found.end))
        if not all(map(isfinite, values)):
            raise ModelError(f"{self.path}: {key} holds NaN or infinity; {AGAIN}")
        return values

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

"""The training text: clean, idiomatic files, without near duplicates, split by content into training and held-out.

Its sources are the interpreter's standard library and locked dependencies under permissive licences. The corpus is read
once and stored with the run, so that a resumed run sees the same text even after an upgrade of them.
"""

import hashlib
import re
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import msgspec

_HELD_OUT_PERCENT = 5
_SIZE_BYTES = range(400, 150_000)
_TEST_SHARE = 0.12
"""The largest share of tests in a source, because they repeat themselves."""

_LEFT_OUT = re.compile(
    r"(^|/)(_vendor|vendored|pydoc_data|encodings|idlelib|turtledemo|lib2to3/tests/data|_sysconfigdata[^/]*"
    r"|test/(bad|encoded_modules|cjkencodings|test_json/data)[^/]*|lexers/_[^/]*|[^/]*_pb2[^/]*)(/|$|\.py)"
)
_TEST = re.compile(r"(^|/)(tests?|testing|idle_test)(/|$)|(^|/)test_[^/]*$")
_GENERATED = re.compile(r"(?i)auto-?generated|generated (by|from|automatically)|do not edit|@generated")
_COPYLEFT = re.compile(r"GNU (Lesser |Affero )?General Public|Mozilla Public License")
_BENCHMARK = re.compile(r"(?i)human_?eval|\bmbpp\b")
_TABLE_LINE = re.compile(r"\s*([\d'\"(\[{\\]|u'|0x|b')")


@dataclass(frozen=True)
class SourcePackage:
    """One package. `cap_mb` keeps big packages from setting the style of everything; 10^6 bytes."""

    name: str
    licence: str
    cap_mb: float


STANDARD_LIBRARY = SourcePackage("python-standard-library", "PSF-2.0", 40.0)

_LICENCES = {
    "Apache-2.0": (
        "accelerate huggingface_hub pygls pytest-asyncio safetensors sortedcontainers tokenizers transformers"
    ),
    "MIT": (
        "anyio attrs cattrs filelock h11 iniconfig markdown-it-py mypy platformdirs pluggy pydantic pytest "
        "PyYAML rich truststore typer typing-inspection"
    ),
    "BSD-3-Clause": "click fsspec httpcore2 httpx2 Jinja2 mpmath msgspec networkx numpy psutil sympy torch",
    "Apache-2.0 OR BSD-2-Clause": "packaging",
    "BSD-2-Clause": "Pygments",
    "ISC": "shellingham",
    "PSF-2.0": "typing_extensions",
}
_CAPS_MB = {
    1.0: "mpmath Pygments shellingham sortedcontainers tokenizers truststore typing_extensions typing-inspection",
    3.0: "huggingface_hub mypy networkx numpy pydantic",
    4.0: "sympy",
    6.0: "transformers",
    8.0: "torch",
}
_CAP_OF = {name: mb for mb, names in _CAPS_MB.items() for name in names.split()}
_PACKAGES = [
    SourcePackage(name, licence, _CAP_OF.get(name, 2.0))
    for licence, names in _LICENCES.items()
    for name in names.split()
]
SOURCES = (STANDARD_LIBRARY, *sorted(_PACKAGES, key=lambda one: one.name.lower().replace("_", "-")))


def files_of(source: SourcePackage) -> Iterator[tuple[str, Path]]:
    """The Python files of an installed source as (name within it, path); none if it is not installed."""
    if source.name == STANDARD_LIBRARY.name:
        root = Path(sysconfig.get_paths()["stdlib"])
        found = (path for path in root.rglob("*.py") if "site-packages" not in path.parts)
        yield from ((path.relative_to(root).as_posix(), path) for path in found)
        return
    try:
        files = distribution(source.name).files or []
    except PackageNotFoundError:
        return
    yield from ((file.as_posix(), Path(str(file.locate()))) for file in files if file.suffix == ".py")


class SourceFile(msgspec.Struct, frozen=True):
    """One file: its source, its name there, its text, and whether it is held out from the model."""

    source: str
    name: str
    text: str
    held_out: bool


def is_held_out(text: str) -> bool:
    """Whether a file belongs to the held-out files, by the hash of its text without whitespace at line ends."""
    plain = "\n".join(line.rstrip() for line in text.split("\n")).strip()
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:4], "big") % 100 < _HELD_OUT_PERCENT


def load(cache: Path, max_mb: float, wanted: Iterable[SourcePackage] = SOURCES) -> list[SourceFile]:
    """The corpus of a run: from `cache` if present, otherwise collected and saved there."""
    if cache.is_file():
        return msgspec.msgpack.decode(cache.read_bytes(), type=list[SourceFile])
    files = list(collect(wanted, max_mb))
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_bytes(msgspec.msgpack.encode(files))
    return files


def collect(wanted: Iterable[SourcePackage], max_mb: float) -> Iterator[SourceFile]:
    """Files of the sources up to their caps and `max_mb` each, few of them tests, without near duplicates."""
    duplicates = Duplicates()
    for source in wanted:
        cap = min(source.cap_mb, max_mb) * 1e6
        left = {True: cap * _TEST_SHARE, False: cap}
        for name, text in _readable(source):
            kind = bool(_TEST.search(name))
            if len(text) <= left[kind] and duplicates.admit(text):
                left[kind] -= len(text)
                yield SourceFile(source.name, name, text, is_held_out(text))


def _readable(source: SourcePackage) -> Iterator[tuple[str, str]]:
    """A source's files in an order independent of their folders, so that a cap takes a fair sample."""
    found = [item for item in files_of(source) if not _LEFT_OUT.search(item[0])]
    for name, path in sorted(found, key=lambda item: hashlib.sha256(item[0].encode()).digest()):
        try:
            if path.stat().st_size in _SIZE_BYTES and is_clean(text := path.read_text("utf-8")):
                yield name, text
        except (OSError, UnicodeDecodeError):
            continue


def is_clean(text: str) -> bool:
    """Whether a file reads like human-written code under a permissive licence, and is no benchmark."""
    lines = text.split("\n")
    if max(map(len, lines)) > 400 or len(text) > 60 * len(lines) or "\t" in text or "\r" in text:
        return False
    if _GENERATED.search(text[:2000]) or _COPYLEFT.search(text) or _BENCHMARK.search(text):
        return False
    return sum(bool(_TABLE_LINE.match(line)) for line in lines) < 0.4 * len(lines)


_RUN_LINES = 3
_MOST_SEEN = 0.5
"""The largest share of a file that may have been seen before."""


class Duplicates:
    """Finds near duplicates by the share of runs of three lines, blank ones left out, that were admitted before."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def admit(self, text: str) -> bool:
        """Whether the seen share of the text is within the limit; if so, remembers it."""
        lines = [line for line in (line.strip() for line in text.split("\n")) if line]
        starts = range(max(1, len(lines) - _RUN_LINES + 1) if lines else 0)
        runs = {zlib.crc32("\n".join(lines[i : i + _RUN_LINES]).encode()) for i in starts}
        if not runs or len(runs & self._seen) > _MOST_SEEN * len(runs):
            return False
        self._seen |= runs
        return True

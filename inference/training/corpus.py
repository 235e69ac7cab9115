"""The training text: clean, idiomatic files, without near duplicates, split by content into training and held-out.

It knows files, not tokens. The corpus is read once and stored with the run, so that a resumed run sees the same text
even after an upgrade of the source packages.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from inference.training import sources
from inference.training.duplicates import Duplicates
from inference.training.sources import SourcePackage

HELD_OUT_PERCENT = 5
SIZE_BYTES = range(400, 150_000)
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


class SourceFile(msgspec.Struct, frozen=True):
    """One file: its source, its name there, its text, and whether it is held out from the model."""

    source: str
    name: str
    text: str
    held_out: bool


def is_held_out(text: str) -> bool:
    """Whether a file belongs to the held-out files, by the hash of its text without whitespace at line ends."""
    plain = "\n".join(line.rstrip() for line in text.split("\n")).strip()
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:4], "big") % 100 < HELD_OUT_PERCENT


def load(cache: Path, max_mb: float, wanted: Iterable[SourcePackage] = sources.SOURCES) -> list[SourceFile]:
    """The corpus of a run: from `cache` if present, otherwise collected and saved there."""
    if cache.is_file():
        return msgspec.msgpack.decode(cache.read_bytes(), type=list[SourceFile])
    files = list(collect(wanted, max_mb))
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_bytes(msgspec.msgpack.encode(files))
    return files


def collect(wanted: Iterable[SourcePackage], max_mb: float) -> Iterator[SourceFile]:
    """Files of the sources up to their caps and `max_mb` each, near duplicates of earlier ones left out."""
    duplicates = Duplicates()
    for source in wanted:
        yield from of_source(source, max_mb, duplicates.admit)


def of_source(
    source: SourcePackage, max_mb: float, admit: Callable[[str], bool] = lambda _text: True
) -> Iterator[SourceFile]:
    """Files of one installed source, up to its cap, that `admit` lets pass."""
    for name, text in capped(_readable(source), min(source.cap_mb, max_mb) * 1e6, admit):
        yield SourceFile(source.name, name, text, is_held_out(text))


def capped(
    found: Iterable[tuple[str, str]], cap: float, admit: Callable[[str], bool] = lambda _text: True
) -> Iterator[tuple[str, str]]:
    """As many (name, text) as `cap` characters allow, few of them tests, that `admit` lets pass."""
    left = {True: cap * _TEST_SHARE, False: cap}
    for name, text in found:
        kind = bool(_TEST.search(name))
        if len(text) <= left[kind] and admit(text):
            left[kind] -= len(text)
            yield name, text


def sizes(files: Iterable[SourceFile]) -> dict[str, int]:
    """Characters of each source, for the log and the model card."""
    count: Counter[str] = Counter()
    for file in files:
        count[file.source] += len(file.text)
    return dict(count)


def _readable(source: SourcePackage) -> Iterator[tuple[str, str]]:
    """A source's files in an order independent of their folders, so that a cap takes a fair sample."""
    found = [item for item in sources.files_of(source) if is_wanted(item[0])]
    for name, path in sorted(found, key=lambda item: hashlib.sha256(item[0].encode()).digest()):
        try:
            if path.stat().st_size in SIZE_BYTES and is_clean(text := path.read_text("utf-8")):
                yield name, text
        except (OSError, UnicodeDecodeError):
            continue


def is_wanted(name: str) -> bool:
    """Whether a file's name is acceptable, unlike that of vendored or generated code."""
    return not _LEFT_OUT.search(name)


def is_clean(text: str) -> bool:
    """Whether a file reads like human-written code under a permissive licence, and is no benchmark."""
    lines = text.split("\n")
    if max(map(len, lines)) > 400 or len(text) > 60 * len(lines) or "\t" in text or "\r" in text:
        return False
    if _GENERATED.search(text[:2000]) or _COPYLEFT.search(text) or _BENCHMARK.search(text):
        return False
    return sum(bool(_TABLE_LINE.match(line)) for line in lines) < 0.4 * len(lines)

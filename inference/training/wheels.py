"""Training text from a folder of wheels: everyday packages under permissive licences, some of them held out whole.

    python -m inference.training.wheels WHEELS RUN

writes `corpus.msgpack` and `sources.json` (each package with its version, licence and characters) into the folder RUN,
for a run that is started there. The installed sources of `sources.py` come in, too, torch and transformers with less of
their files. A package is held out by its name: a table of its holes then speaks of projects that the model has never
seen. The files that the older rule holds out, by the hash of their text, stay out of training as well.
"""

import argparse
import email.parser
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from inference.training import corpus, sources
from inference.training.corpus import SourceFile
from inference.training.duplicates import Duplicates
from inference.training.sources import SourcePackage

HELD_OUT_PERCENT = 8
_CAP_MB = 1.5
"""The cap of one package, in 10^6 characters: many projects in many styles, none of which dominates."""

_LESS_MB = {"torch": 2.0, "transformers": 2.0, sources.STANDARD_LIBRARY.name: 12.0}
_MOST_REPEATED = 0.15
"""Leave out a file if more than this share of it is in another one, by runs of three lines."""

_MOST_HELD_OUT_REPEATED = 0.02
"""The same against the held-out files."""

_PERMISSIVE = re.compile(
    r"\b(MIT|BSD|0BSD|Apache|ISC|PSF|Python Software Foundation|Zlib|HPND|Unlicense|CC0|public domain)\b", re.IGNORECASE
)
_COPYLEFT = re.compile(r"\b(L|A)?GPL|General Public|Mozilla|\bMPL|Eclipse|\bEPL|CDDL|EUPL", re.IGNORECASE)


@dataclass(frozen=True)
class Wheel:
    """One published package."""

    name: str
    version: str
    licence: str
    file: Path

    @property
    def is_permissive(self) -> bool:
        """Whether its stated licence requires no more than attribution."""
        return bool(_PERMISSIVE.search(self.licence)) and not _COPYLEFT.search(self.licence)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Its readable Python files as (name, text), in an order independent of their folders."""
        with zipfile.ZipFile(self.file) as archive:
            found = [
                one for one in archive.infolist() if one.filename.endswith(".py") and corpus.is_wanted(one.filename)
            ]
            for one in sorted(found, key=lambda one: hashlib.sha256(one.filename.encode()).digest()):
                if one.file_size in corpus.SIZE_BYTES and corpus.is_wanted(one.filename):
                    try:
                        text = archive.read(one).decode("utf-8")
                    except UnicodeDecodeError:
                        continue
                    if corpus.is_clean(text):
                        yield one.filename, text


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the corpus; the last line of output is one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m inference.training.wheels", description=__doc__)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--only-wheels", action="store_true", help="leave out what is installed here")
    args = parser.parse_args(argv)
    wheels = [wheel for wheel in map(read, sorted(args.wheels.glob("*.whl"))) if wheel.is_permissive]
    if not wheels:
        print(f"error: no wheels of packages under permissive licences in {args.wheels}", file=sys.stderr)
        return 2
    files = list(collect(wheels, () if args.only_wheels else sources.SOURCES))
    args.run.mkdir(parents=True, exist_ok=True)
    (args.run / "corpus.msgpack").write_bytes(msgspec.msgpack.encode(files))
    (args.run / "sources.json").write_text(json.dumps(list(_table(wheels, files)), indent=1) + "\n", "utf-8")
    trained = sum(len(file.text) for file in files if not file.held_out)
    hidden = sum(len(file.text) for file in files if file.held_out)
    print(json.dumps({"files": len(files), "characters": trained, "held_out_characters": hidden}))
    return 0


def read(file: Path) -> Wheel:
    """A wheel's metadata. Raises OSError, zipfile.BadZipFile or KeyError if there is none."""
    with zipfile.ZipFile(file) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = email.parser.BytesParser().parsebytes(archive.read(name), headersonly=True)
    stated = [about.get("License-Expression", ""), *_classifiers(about.get_all("Classifier") or [])]
    stated += [] if any(stated) else [about.get("License", "").split("\n")[0][:80]]
    return Wheel(about["Name"], about["Version"], "; ".join(filter(None, stated)), file)


def is_held_out_package(name: str) -> bool:
    """Whether a whole package belongs to the held-out files."""
    return hashlib.sha256(name.lower().replace("_", "-").encode()).digest()[0] * 100 < HELD_OUT_PERCENT * 256


def collect(wheels: Sequence[Wheel], installed: Sequence[SourcePackage] = sources.SOURCES) -> Iterator[SourceFile]:
    """The held-out files, then the training files, without near duplicates of either."""
    hidden, known = Duplicates(_MOST_REPEATED), Duplicates(_MOST_REPEATED)
    capped = list(_capped(wheels, installed))
    for file in capped:
        if file.held_out and hidden.admit(file.text):
            yield file
    for file in capped:
        if not file.held_out and hidden.share(file.text) <= _MOST_HELD_OUT_REPEATED and known.admit(file.text):
            yield file


def _capped(wheels: Sequence[Wheel], installed: Sequence[SourcePackage]) -> Iterator[SourceFile]:
    """Files of each package up to its cap. A package that is also installed here comes from its wheel."""
    published = {wheel.name.lower().replace("_", "-") for wheel in wheels}
    for source in installed:
        if source.name.lower().replace("_", "-") not in published:
            smaller = SourcePackage(source.name, source.licence, _LESS_MB.get(source.name, _CAP_MB))
            yield from corpus.of_source(smaller, sys.float_info.max)
    for wheel in wheels:
        hidden = is_held_out_package(wheel.name)
        for name, text in corpus.capped(wheel.texts(), _CAP_MB * 1e6):
            yield SourceFile(wheel.name, name, text, hidden or corpus.is_held_out(text))


def _classifiers(lines: Sequence[str]) -> list[str]:
    marked = [line.rpartition(" :: ")[2] for line in lines if line.startswith("License :: ")]
    return [one for one in marked if one != "OSI Approved"]


def _table(wheels: Sequence[Wheel], files: Sequence[SourceFile]) -> Iterator[dict[str, object]]:
    sizes = corpus.sizes(files)
    stated = {wheel.name: (wheel.version, wheel.licence) for wheel in wheels}
    installed = {source.name: ("as installed", source.licence) for source in sources.SOURCES}
    hidden = {file.source for file in files if file.held_out} - {file.source for file in files if not file.held_out}
    for name in sorted(sizes, key=str.lower):
        version, licence = stated.get(name) or installed[name]
        row = {"name": name, "version": version, "licence": licence, "characters": sizes[name]}
        yield row | ({"held_out": True} if name in hidden else {})


if __name__ == "__main__":
    raise SystemExit(main())

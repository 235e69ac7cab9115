"""Makes cases of `infill-ls bench next-edit` from a folder of releases: wheels and npm tarballs.

    python -m inference.bench.next_edit_make RELEASES OUT.jsonl.gz --packages httpx,rich --edits 120 --quiet 120

From two consecutive releases of a file it takes changes that belong together (next_edit_diff.py); all others are
already made. Quiet cases are a change that shares no word with the others (`alone`), the last change of a group
(`completed`), a comment (`comment`), and no change at all (`rest`). The same folder and flags give the same file.
"""

import argparse
import hashlib
import itertools
import json
import sys
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.version import InvalidVersion, Version

from inference.bench import infilling_tasks
from inference.bench.next_edit_cases import LANGUAGES, EditCase, LineChange, changes
from inference.bench.next_edit_diff import is_alone, is_of_code, related_groups

_LINES, _WINDOW = range(15, 4000), 600
"""Use files of this many lines; keep a window of one longer than the second number."""
_MARGIN = 60
_OF_A_FILE = 3
"""The most cases of one kind from one file, over all its releases."""
_SKIPPED = ("/_vendor/", "/vendor/", "/dist/", ".min.", "_pb2", "/locale/", "/migrations/", ".d.ts", "/data/")


@dataclass(frozen=True)
class Release:
    """One published archive."""

    package: str
    version: Version
    file: Path

    def texts(self) -> dict[str, str]:
        """Its readable source files by their paths."""
        found = {}
        for name, content in self._members():
            with suppress(UnicodeDecodeError):
                found[name] = content.decode("utf-8")
        return found

    def _members(self) -> Iterator[tuple[str, bytes]]:
        if self.file.suffix == ".whl":
            with zipfile.ZipFile(self.file) as wheel:
                yield from ((name, wheel.read(name)) for name in wheel.namelist() if _is_wanted(name))
        else:
            with tarfile.open(self.file) as tarball:
                for member in tarball:
                    if _is_wanted(member.name) and (opened := tarball.extractfile(member)):
                        yield member.name.partition("/")[2], opened.read()


def main(argv: Sequence[str] | None = None) -> int:
    """Makes a file of cases; the last line of output is one JSON object."""
    args = argument_parser().parse_args(argv)
    packages, held_out = (set(map(_canonical, names.split(","))) - {""} for names in (args.packages, args.without))
    cases: list[EditCase] = []
    for package, releases in _releases(args.folder).items():
        if (not packages or package in packages) and package not in held_out:
            cases += _of_package(package, releases, args.edits, args.quiet)
            print(package, len(releases), "releases;", len(cases), "cases", file=sys.stderr)
    infilling_tasks.write(args.out, sorted(cases, key=_shuffled))
    kinds = Counter(case.kind for case in cases)
    print(json.dumps({"out": args.out.name, "cases": len(cases), "kinds": kinds}))
    return 0


def _of_package(package: str, releases: Sequence[Release], edits: int, quiet: int) -> list[EditCase]:
    """The cases of one package, each kind up to its share."""
    found, seen = list(_cases(package, releases)), set()
    files: Counter[tuple[str, str]] = Counter()
    kept: dict[str, list[EditCase]] = defaultdict(list)
    for case in sorted(found, key=_shuffled):
        known = tuple((change.old.strip(), change.new.strip()) for change in case.changes[:2]) or case.text
        kind = "edits" if not case.is_quiet else case.kind
        if known not in seen and files[case.path, kind] < _OF_A_FILE:
            seen.add(known)
            files[case.path, kind] += 1
            kept[kind].append(case)
    return kept["edits"][:edits] + [
        case for kind, share in (("alone", 5), ("completed", 3), ("comment", 1), ("rest", 1))
        for case in kept[kind][: max(1, quiet * share // 10) if quiet else 0]
    ]  # fmt: skip


def _cases(package: str, releases: Sequence[Release]) -> Iterator[EditCase]:
    texts: dict[str, str] = {}
    versions = ""
    for release in sorted(releases, key=lambda one: one.version):
        before, texts = texts, release.texts()
        for path in sorted(before.keys() & texts.keys()):
            if before[path] != texts[path] and max(before[path].count("\n"), texts[path].count("\n")) in _LINES:
                name = f"{package} {versions}..{release.version} {path}"
                yield from _of_file(name, package, path, before[path], texts[path])
        versions = str(release.version)


def _of_file(name: str, package: str, path: str, old: str, new: str) -> Iterator[EditCase]:
    found = changes(old, new)
    language = LANGUAGES[PurePosixPath(path).suffix]

    def case(kind: str, group: Sequence[LineChange]) -> EditCase | None:
        text, moved = _open(old, found, group)
        first = next((change.line for change in moved), 0)
        cut = _window(text, moved)
        here = f"{name}:{first + 1}"
        return cut and EditCase(f"{kind} {here}", package, language, path, kind, *cut)

    groups = list(related_groups(found))
    grouped = {id(change) for group in groups for change in group}
    wanted: list[EditCase | None] = []
    for group in groups:
        wanted += [case("edits", group), case("completed", group[-1:])]
    for change in found:
        if id(change) not in grouped and max(change.old.count("\n"), change.new.count("\n")) <= 6:
            if not is_of_code(change):
                wanted.append(case("comment", [change]) if "#" in change.new or "//" in change.new else None)
            elif is_alone(change, found):
                wanted.append(case("alone", [change]))
    wanted.append(case("rest", []))
    yield from filter(None, wanted)


def _open(old: str, found: Sequence[LineChange], group: Sequence[LineChange]) -> tuple[str, list[LineChange]]:
    """The text with all changes except those of the group, and these at their lines in it."""
    lines, text, moved, at = old.splitlines(keepends=True), [], [], 0
    for change in found:
        text += lines[at : change.line]
        if any(change is one for one in group):
            moved.append(LineChange(len(text), change.old, change.new))
            text += change.old.splitlines(keepends=True)
        else:
            text += change.new.splitlines(keepends=True)
        at = change.line + change.old.count("\n")
    return "".join(text + lines[at:]), moved


def _window(text: str, moved: Sequence[LineChange]) -> tuple[str, tuple[LineChange, ...]] | None:
    """A window of a long file around the changes, between unindented lines. None: still too long."""
    lines = text.splitlines(keepends=True)
    if "\r" in text or text.count("\n") != len(lines) or len(lines) not in _LINES or max(map(len, lines)) > 300:
        return None
    first, end = 0, len(lines)
    if len(lines) > _WINDOW:
        middle = moved[0].line if moved else len(lines) // 2
        first = max(0, middle - _MARGIN)
        while first > 0 and lines[first][:1] in " \t\n)]}#":
            first -= 1
        end = min(end, (moved[-1].line if moved else middle) + _MARGIN)
        while end < len(lines) and lines[end][:1] in " \t\n)]}":
            end += 1
    if end - first > _WINDOW:
        return None
    return "".join(lines[first:end]), tuple(LineChange(one.line - first, one.old, one.new) for one in moved)


def _releases(folder: Path) -> dict[str, list[Release]]:
    """The archives of a folder by package, according to their names. Leaves out those with an unreadable version."""
    found: dict[str, list[Release]] = defaultdict(list)
    for file in itertools.chain(sorted(folder.glob("*.whl")), sorted(folder.glob("*.tgz"))):
        if file.suffix == ".whl":
            name, version = file.name.split("-")[:2]
        else:
            name, _, version = file.name.removesuffix(".tgz").rpartition("-")
        try:
            found[_canonical(name)].append(Release(_canonical(name), Version(version), file))
        except InvalidVersion:
            print(f"left out: {file.name}", file=sys.stderr)
    return dict(sorted(found.items()))


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _is_wanted(name: str) -> bool:
    return PurePosixPath(name).suffix in LANGUAGES and not any(part in f"/{name}" for part in _SKIPPED)


def _shuffled(case: EditCase) -> bytes:
    return hashlib.sha256(case.name.encode()).digest()


def argument_parser() -> argparse.ArgumentParser:
    """The maker's flags."""
    parser = argparse.ArgumentParser(prog="python -m inference.bench.next_edit_make", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="RELEASES")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl.gz")
    parser.add_argument("--packages", default="", metavar="NAMES", help="only these, separated by commas")
    parser.add_argument("--without", default="", metavar="NAMES", help="none of these")
    parser.add_argument("--edits", type=int, default=1000, metavar="N", help="the most edits of one package")
    parser.add_argument("--quiet", type=int, default=1000, metavar="N", help="the most quiet cases of one package")
    return parser


if __name__ == "__main__":
    sys.exit(main())

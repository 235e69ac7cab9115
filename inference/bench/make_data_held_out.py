"""`python -m inference.bench.make_data_held_out CORPUS FOLDER`: writes out the files that training must never see.

CORPUS is the `corpus.msgpack` of a run; where it is missing, it is made again from the installed packages. Leaves out
the standard library, on all of which checkpoints before this split were trained, and packages' tests, which repeat
themselves. FOLDER gets two folders: `reporting` for numbers that are published, `tuning` for choosing settings. With
`--packages` they get only packages that are held out whole: projects that the model has never seen, those named by
`--tuning` in one folder and the others in the other. The last line of output is one JSON object, the characters of each
package.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from inference.training import corpus, sources

_TESTS = re.compile(r"(^|/)(tests?|testing)(/|$)|(^|/)test_[^/]*$")


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the files, each under its package's name; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", action="store_true", help="only packages that are held out whole")
    parser.add_argument("--tuning", default="", metavar="NAMES", help="with --packages: those to choose settings by")
    parser.add_argument("--without", default="", metavar="NAMES", help="with --packages: those that go in no folder")
    args = parser.parse_args(argv)
    files = corpus.load(args.corpus, sys.float_info.max)
    trained = {file.source for file in files if not file.held_out} if args.packages else set()
    kept = [file for file in files if file.held_out and file.source not in {*trained, sources.STANDARD_LIBRARY.name}]
    kept = [file for file in kept if not _TESTS.search(file.name)]
    tuning, without = set(filter(None, args.tuning.split(","))), set(filter(None, args.without.split(",")))
    if args.packages:
        if unknown := (tuning | without) - {file.source for file in kept}:
            print(f"infill-ls: no package that is held out whole: {', '.join(sorted(unknown))}", file=sys.stderr)
            return 2
        kept = [file for file in kept if file.source not in without]
    for file in kept:
        half = _half(file.name) if not args.packages else "tuning" if file.source in tuning else "reporting"
        target = args.folder / half / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.text, "utf-8")
    print(json.dumps(corpus.sizes(kept)))
    return 0


def _half(name: str) -> str:
    return "reporting" if hashlib.sha256(name.encode()).digest()[0] % 2 else "tuning"


if __name__ == "__main__":
    sys.exit(main())

"""`python -m inference.bench.make_data_held_out CORPUS FOLDER`: the files a training run must never see, as files.

CORPUS is the `corpus.msgpack` of a run (made anew from the installed packages where it is not there). Files of the
standard library are left out: checkpoints before this split were trained on all of it. Tests of packages are left out
too, because they repeat themselves. FOLDER gets two folders: files in `reporting` are for numbers that are told, those
in `tuning` for choosing settings. Last line of output: one JSON object, the characters of each package.
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
    """Writes the files, each under its package's name, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args(argv)
    kept = [file for file in corpus.load(args.corpus, sys.float_info.max) if file.held_out]
    kept = [file for file in kept if file.source != sources.STANDARD_LIBRARY.name and not _TESTS.search(file.name)]
    for file in kept:
        target = args.folder / _half(file.name) / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.text, "utf-8")
    print(json.dumps(corpus.sizes(kept)))
    return 0


def _half(name: str) -> str:
    return "reporting" if hashlib.sha256(name.encode()).digest()[0] % 2 else "tuning"


if __name__ == "__main__":
    sys.exit(main())

"""The part of a model card that a run knows: its training data, its duration, and the course of its losses.

python -m inference.training.card RUN_FOLDER
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from inference.training import corpus, sources
from inference.training.corpus import SourceFile

_LINES = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the card of the run in a folder; returns an exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1 or not (Path(given[0]) / "corpus.msgpack").is_file():
        print("usage: python -m inference.training.card RUN_FOLDER")
        return 2
    print(card(Path(given[0])))
    return 0


def card(folder: Path) -> str:
    """Markdown: the sources with their licences and sizes, then held-out losses over the run."""
    files = corpus.load(folder / "corpus.msgpack", 0.0, ())
    lines = (json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines())
    held_out = [line for line in lines if line["kind"].startswith("held-out")]
    return "\n".join([*_data(files), "", *_losses(held_out)])


def _data(files: Sequence[SourceFile]) -> Iterator[str]:
    hidden = sum(len(file.text) for file in files if file.held_out) / 1e6
    whole = sum(len(file.text) for file in files) / 1e6
    yield f"{len(files)} Python files, {whole:.1f} million characters, of which {hidden:.1f} million are held out"
    yield from (
        "by content hash and never trained on.",
        "",
        "| source | licence | million characters |",
        "|---|---|---:|",
    )
    licences = {source.name: source.licence for source in sources.SOURCES}
    for name, size in sorted(corpus.sizes(files).items(), key=lambda item: -item[1]):
        yield f"| {name} | {licences.get(name, 'unknown')} | {size / 1e6:.2f} |"


def _losses(entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Losses in nats per token on held-out files, at a few places of the run."""
    yield "| hours | steps | million tokens | hole | hidden text | next token |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for entry in _some(entries):
        hours, tokens = entry["seconds"] / 3600, entry["tokens"] / 1e6
        losses = " | ".join(f"{entry[name]:.2f}" for name in ("hole", "text", "causal"))
        yield f"| {hours:.1f} | {entry['step']} | {tokens:.1f} | {losses} |"


def _some(entries: Sequence[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """A dozen entries spread over the run, the last one among them."""
    step = max(1, -(-len(entries) // _LINES))
    return list(reversed(entries[::-1][::step]))


if __name__ == "__main__":
    raise SystemExit(main())

"""`infill-ls models pull NAME`: downloads a model of the catalogue, or of a hub id, because a user asks for it.

The newest revision is written down before anything is fetched; from then on this one counts. Each file is checked
against the hash that the hub gave. What is here already is not fetched again; if all is, no network is used.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TimeRemainingColumn, TransferSpeedColumn

from inference.models import catalogue, downloads, hub, registry
from inference.models.checkpoint import HUB_ID
from inference.models.downloads import Pulled
from inference.models.family import ModelError
from inference.models.pull_advice import Target, by_hand, reason, size

EXIT_USAGE, EXIT_INTERRUPTED = 2, 130
_FREE = ("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause")
"""Licences that ask nothing of a user which is worth a question."""


class PullError(Exception):
    """It cannot go on. str() says why; `by_hand`: whether it helps to say what to do without this command."""

    def __init__(self, why: str, *, by_hand: bool = True) -> None:
        super().__init__(why)
        self.by_hand = by_hand


def main(argv: Sequence[str] | None = None) -> int:
    """Pull one model. Exit status 0 when all its files are here and checked, 1 where not, 2 for a name of no model."""
    parser = argparse.ArgumentParser(prog="infill-ls models pull", description="Download a model and verify its files.")
    parser.add_argument("model", metavar="NAME", help="a name that `infill-ls models` shows, or a hub id: owner/name")
    parser.add_argument("--accept-licence", action="store_true", help="do not ask: the licence is accepted")
    args = parser.parse_args(argv)
    entry = catalogue.find(args.model)
    if entry and not entry.repo:
        print(f"{entry.name} ships with infill-ls: there is nothing to download")
        return 0
    if not entry and not HUB_ID.fullmatch(args.model):
        known = ", ".join(one.name for one in catalogue.ENTRIES if one.repo)
        return _fail(f"there is no model {args.model!r}; known are {known}; or give a hub id such as owner/name", 2)
    name, repo = (entry.name, entry.repo) if entry else (args.model, args.model)
    return _pull(Target(name, repo, downloads.folder_for(args.model)), accepted=args.accept_licence)


def _pull(target: Target, *, accepted: bool) -> int:
    try:
        target.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(target.folder / ".pull.lock", timeout=0):
            _complete(target, accepted=accepted)
    except Timeout:
        return _fail(f"{target.name} is being pulled by another process; wait for it")
    except (PullError, ModelError) as error:
        return _fail(str(error) + (by_hand(target) if getattr(error, "by_hand", False) else ""))
    except KeyboardInterrupt:
        _fail("stopped; the same command goes on where it was")
        return EXIT_INTERRUPTED
    except Exception as error:  # the hub's client raises its own errors and those of two more libraries
        return _fail(reason(error, target) + by_hand(target))
    print(f"{target.name} is here, each file checked; use it: --model {target.name}, or your editor's setting `model`")
    return 0


def _complete(target: Target, *, accepted: bool) -> None:
    """Fetch what is missing. Raises PullError, ModelError, and whatever the hub's client raises."""
    record = downloads.read_record(target.folder, target.repo)
    wanted = record or hub.look_up(target.repo, None)
    _show(target, wanted)
    if not record:
        _check(target, wanted)
        _ask(wanted.licence, accepted=accepted)
        _write(target.folder, wanted)
    if record:
        print("  checking what is here", flush=True)
    files = sorted(wanted.files.items(), key=lambda item: item[1].size)
    missing = [name for name, file in files if not hub.is_intact(target.folder / name, file)]
    if missing:
        _require_room(target.folder, wanted, missing)
        _write(target.folder, msgspec.structs.replace(wanted, complete=False))
    with _progress() as progress:
        for number, name in enumerate(missing):
            file = wanted.files[name]
            print(f"  {number + 1} of {len(missing)}: {name}, {size(file.size)}", flush=True)
            task = progress.add_task(name, total=file.size)
            hub.fetch(wanted, name, target.folder, partial(_tell, progress, task))
            progress.remove_task(task)
    _write(target.folder, msgspec.structs.replace(wanted, complete=True))
    try:
        registry.find(str(target.folder))
    except ModelError as error:
        raise PullError(f"all files are here and intact, but cannot be used: {error}", by_hand=False) from error


def _tell(progress: Progress, task: TaskID, here: int) -> None:
    progress.update(task, completed=here)


def _progress() -> Progress:
    """A bar with speed and time left on a terminal; nothing elsewhere."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def _show(target: Target, wanted: Pulled) -> None:
    print(f"{target.name}: {catalogue.page_of(target.repo)}")
    print(f"  licence   {ascii(wanted.licence[:200])[1:-1]}")
    print(f"  revision  {wanted.revision}")
    print(f"  files     {len(wanted.files)}, {size(wanted.bytes_)}")
    print(f"  folder    {target.folder}", flush=True)


def _check(target: Target, wanted: Pulled) -> None:
    if not wanted.revision:
        raise PullError(f"the hub names no revision of {target.repo}")
    if not any(name.endswith(".safetensors") for name in wanted.files):
        raise PullError(
            f"{target.repo} has no *.safetensors; other weight formats can run code and are refused", by_hand=False
        )


def _ask(licence: str, *, accepted: bool) -> None:
    if accepted or licence.lower() in _FREE:
        return
    if not sys.stdin.isatty():
        why = f"its licence ({licence}) is not one that asks nothing of you: read it on its page, then run this again"
        raise PullError(f"{why} with --accept-licence", by_hand=False)
    if input(f"Do you accept the licence ({licence})? Type yes: ").strip().lower() != "yes":
        raise PullError("not accepted, nothing was downloaded", by_hand=False)


def _require_room(folder: Path, wanted: Pulled, missing: Sequence[str]) -> None:
    here = sum(part.stat().st_size for part in folder.glob(f"*{downloads.PART}"))
    needed, free = sum(wanted.files[name].size for name in missing) - here, shutil.disk_usage(folder).free
    if needed > free:
        raise PullError(
            f"the disk is too full: {size(needed)} are needed and {size(free)} free at {folder}; make room, or set "
            "HF_HOME to a folder on a larger disk",
            by_hand=False,
        )


def _write(folder: Path, record: Pulled) -> None:
    new = folder / f"{downloads.RECORD}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    new.replace(folder / downloads.RECORD)


def _fail(why: str, status: int = 1) -> int:
    print(f"infill-ls models pull: {why}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

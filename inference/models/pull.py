"""`infill-ls models pull NAME`: downloads a model of the catalogue, or of a hub id, at a user's request.

It records the revision, pinned by the catalogue or else the newest, sticks to it, and checks each file against the
catalogue's or the hub's hash. If all files exist, it uses no network.
"""

import argparse
import errno
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from inference.models import catalogue, hub, model_store, registry
from inference.models.family import ModelError
from inference.models.model_store import PullRecord, PullTarget
from inference.terminal import format_bytes, printable, printable_lines

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_LINE_EVERY_S = 2.0
_JSON_EVERY_S = 0.2
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)
_QUERY = re.compile(r"\?\S+")
"""The query of a URL: it may be signed."""


class PullError(Exception):
    """The pull cannot continue, and a download by hand would not help. str() says why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Pulls one model. Exit status 0 if all its files are here and checked, 1 if not, 2 for a name of no model."""
    parser = argparse.ArgumentParser(prog="infill-ls models pull", description="Download a model and verify its files.")
    parser.add_argument("model", metavar="NAME", help="a name that `infill-ls models` shows, or a hub id: owner/name")
    parser.add_argument("--accept-licence", action="store_true", help="do not ask: the licence is accepted")
    parser.add_argument("--json", action="store_true", help="report progress as JSON lines")
    args = parser.parse_args(argv)
    target = model_store.pull_target(args.model)
    if target.entry and not target.repo:
        print(f"{target.name} ships with infill-ls: there is nothing to download")
        return 0
    if not target.entry and not catalogue.is_hub_id(args.model):
        names = ", ".join(entry.name for entry in catalogue.ENTRIES if entry.repo)
        reason = f"unknown model {args.model[:100]!r}; known are {names}; or give a hub id such as owner/name"
        return _fail(reason, EXIT_USAGE)
    return _pull(target, accepted=args.accept_licence, as_json=args.json)


def _pull(target: PullTarget, *, accepted: bool, as_json: bool) -> int:
    try:
        if not constants.ENDPOINT.startswith(("http://", "https://")):
            raise PullError("HF_ENDPOINT is not a URL: start it with https://, or unset it")
        for folder in (target.folder.parent, target.folder):
            if folder.is_symlink():
                raise PullError(f"{folder} is a link, and links are not followed here; remove it and run this again")
        target.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(target.folder / ".pull.lock", timeout=0):
            _fetch_missing(target, accepted=accepted, as_json=as_json)
    except Timeout:
        return _fail(f"{target.name} is being pulled by another process; wait for it")
    except (PullError, ModelError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("stopped; the same command resumes there", EXIT_INTERRUPTED)
    except Exception as error:  # the hub's client raises its own errors and those of two more libraries
        return _fail(_failure_reason(error, target) + _manual_instructions(target))
    if target.entry and target.entry.edit_kind:
        print(f"{target.name} is here, each file checked. Next edits use it once you restart your editor, if it fits")
        print('and is fast enough and `nextEdit.model` is "auto", the default')
        return 0
    print(f"{target.name} is here, each file checked; use it: --model {target.name}, or the setting `model`, which")
    print('is "auto" by default: the best that is here and runs well')
    return 0


def _fetch_missing(target: PullTarget, *, accepted: bool, as_json: bool) -> None:
    """Fetches the missing files. Raises PullError, ModelError, and the errors of the hub's client."""
    record = None
    try:
        record = model_store.read_record(target.folder, target.repo)
    except model_store.DamagedRecordError:
        damaged = printable(target.folder / model_store.RECORD_FILE)
        print(f"{damaged} is damaged: {target.name} counts as not pulled", flush=True)
    requested = record or target.pinned or hub.fetch_pull_record(target.repo, target.only)
    _show(target, requested)
    if not record:
        if not any(name.endswith((".safetensors", ".gguf")) for name in requested.files):
            reason = "other weight formats can run code and are refused; of several GGUF files download one by hand"
            raise PullError(f"{target.repo} has no {target.only or '*.safetensors and no single *.gguf'}; {reason}")
        _ask_for_licence(requested.licence, accepted=accepted)
        _write(target.folder, requested)
    else:
        print("  checking what is here", flush=True)
    files = sorted(requested.files.items(), key=lambda item: item[1].size)
    missing = [name for name, file in files if not hub.is_intact(target.folder / name, file)]
    if missing:
        _require_room(target.folder, requested, missing)
        _write(target.folder, msgspec.structs.replace(requested, complete=False))
    for index, name in enumerate(missing):
        file = requested.files[name]
        print(f"  {index + 1} of {len(missing)}: {name}, {format_bytes(file.size)}", flush=True)
        with _progress(name, file.size, as_json=as_json) as on_bytes:
            hub.fetch_file(requested, name, target.folder, on_bytes)
    _write(target.folder, msgspec.structs.replace(requested, complete=True))
    try:
        registry.open_checkpoint(str(target.folder))
    except ModelError as error:
        raise PullError(f"all files are here and intact, but cannot be used: {error}") from error


@contextmanager
def _progress(name: str, count_bytes: int, *, as_json: bool) -> Iterator[hub.OnBytes]:
    """A bar with speed and time left on a terminal, else a line now and then. Receives the bytes already here.

    `as_json`: the lines are `{"file", "bytes", "total"}`.
    """
    if sys.stderr.isatty() and not as_json:
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(name, total=count_bytes)
            yield lambda done_bytes: progress.update(task, completed=done_bytes)
        return
    every_s = _JSON_EVERY_S if as_json else _LINE_EVERY_S
    last = 0.0 if as_json else time.monotonic()

    def show(num_bytes: int) -> None:
        nonlocal last
        if time.monotonic() - last < every_s:
            return
        last = time.monotonic()
        event = {"file": name, "bytes": num_bytes, "total": count_bytes}
        print(json.dumps(event) if as_json else f"  {num_bytes / 1e6:.0f} of {count_bytes / 1e6:.0f} MB", flush=True)

    yield show


def _show(target: PullTarget, requested: PullRecord) -> None:
    print(f"{target.name}: {_page_of(target.repo)}")
    print(f"  licence   {printable(requested.licence[:200])}")
    print(f"  revision  {requested.revision}")
    print(f"  files     {len(requested.files)}, {format_bytes(requested.total_bytes)}")
    print(f"  folder    {printable(target.folder)}", flush=True)


def _ask_for_licence(licence: str, *, accepted: bool) -> None:
    if accepted or licence.lower() in catalogue.FREE_LICENCES:
        return
    if not sys.stdin.isatty():
        reason = f"its licence ({printable(licence[:200])}) may impose conditions on you"
        raise PullError(f"{reason}: read it on its page, then run this again with --accept-licence")
    if input(f"Do you accept the licence ({printable(licence[:200])})? Type yes: ").strip().lower() != "yes":
        raise PullError("not accepted, nothing was downloaded")


def _require_room(folder: Path, requested: PullRecord, missing: Sequence[str]) -> None:
    partial_bytes = sum(part.lstat().st_size for part in folder.glob(f"*{model_store.PART_EXTENSION}"))
    needed = sum(requested.files[name].size for name in missing) - partial_bytes
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise PullError(
            f"the disk is too full: {format_bytes(needed)} are needed and {format_bytes(free)} free at {folder}; make "
            "room, or set HF_HOME to a folder on a larger disk",
        )


def _write(folder: Path, record: PullRecord) -> None:
    new = folder / f"{model_store.RECORD_FILE}.new"
    new.unlink(missing_ok=True)  # remove leftovers, perhaps a link
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    new.replace(folder / model_store.RECORD_FILE)


def _failure_reason(error: Exception, target: PullTarget) -> str:
    page = _page_of(target.repo)
    again = "; the partial download is kept, and the next try resumes there"
    if isinstance(error, GatedRepoError):
        return (
            f"{target.repo} is for those who have accepted its licence: log in at {page}, accept it, then run `hf auth "
            "login` (or set HF_TOKEN) with a token of that account, and this command again"
        )
    if isinstance(error, RevisionNotFoundError):
        return f"the hub no longer has this revision; for the newest one delete {target.folder} and run this again"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub knows no model {target.repo}, or hides it from you; if it is private, run `hf auth login`"
    if isinstance(error, OfflineModeIsEnabled):
        return "the network is switched off by HF_HUB_OFFLINE; unset it and run this again"
    if isinstance(error, HfHubHTTPError):
        return f"the hub refuses ({error.response.status_code} {error.response.reason_phrase[:200]}){again}"
    if isinstance(error, hub.DamagedDownloadError):
        return f"{error} is not what the hub promised (its hash differs) and was deleted; run this again"
    if isinstance(error, hub.HubReplyError):
        return f"the hub's answer about {target.repo} is invalid: {error}"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return f"{error.filename} is a link, and links are not followed here; remove it and run this again"
    if isinstance(error, OSError) and error.errno in _NOT_WRITTEN:
        return f"{target.folder}: {error.strerror}; make room, or set HF_HOME to a folder that you may write to{again}"
    reason = _QUERY.sub("", (str(error).splitlines() or [""])[0])[:200]
    return f"the transfer broke off: {type(error).__name__}: {reason}; behind a proxy set HTTPS_PROXY{again}"


def _manual_instructions(target: PullTarget) -> str:
    record = None
    with suppress(model_store.DamagedRecordError):
        record = model_store.read_record(target.folder)
    expected = record or target.pinned
    files = f"{_page_of(target.repo)}/tree/{expected.revision if expected else 'main'}"
    names = [*expected.files] if expected else [target.only] if target.only else []
    items = ", ".join(names) or "every *.safetensors and *.json, and merges.txt if it is there"
    put = f"put {'it' if len(names) == 1 else 'them'} into {target.folder}"
    then = " and try again, which checks them without a network" if record else f". Then: --model {target.name}"
    lone = "" if names else "; if its weights are a single *.gguf, that alone, and --model with its path"
    return f"\nBy hand: from {files}, on any machine, download {items}; {put}{then}{lone}"


def _page_of(repo: str) -> str:
    """The repository's page on the hub named by HF_ENDPOINT, without any password in it."""
    scheme, _, address = constants.ENDPOINT.partition("://")
    host = address.rpartition("@")[2] or "huggingface.co"
    return f"{scheme}://{host}/{repo}" if host.isprintable() else f"https://huggingface.co/{repo}"


def _fail(reason: str, status: int = 1) -> int:
    print(f"infill-ls models pull: {printable_lines(reason)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

"""A hub's description of a model, and its files, fetched and verified. The only module here that uses a network.

Uses the hub's own client, which knows the user's token and proxy; but its downloads start over after a break, so files
are transferred here. An interrupted transfer leaves `NAME.part`, and resumes there. It never fetches code.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

import msgspec
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, though not by mypy's rule
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from inference.models.model_store import PART_EXTENSION, REVISION, FileRecord, PullRecord, has_size, is_wanted_file

SILENCE_S = 10.0
"""A transfer silent for this long counts as broken."""
_ANSWER_S = 30.0
_TRIES = 4
"""How many transfers in a row may end without a byte received."""

_CONNECT_S = 5.0

OnBytes = Callable[[int], None]
"""Receives the number of bytes of a file downloaded so far."""


class DamagedDownloadError(Exception):
    """A downloaded file does not match its hash or size. str() names the file."""


class HubReplyError(Exception):
    """The hub's answer makes no sense. str() says why."""


def fetch_pull_record(repo: str, only: str = "") -> PullRecord:
    """The hub's newest files, or the `only` wanted one. Raises HubReplyError, OSError or the client's errors."""
    info = HfApi().model_info(repo, files_metadata=True, timeout=_ANSWER_S)
    card = info.card_data
    licence = (card.get("license_name") or card.get("license")) if card else None
    files = {}
    for file in info.siblings or ():
        digest = file.lfs.sha256 if file.lfs else file.blob_id
        is_wanted = file.rfilename == only if only else is_wanted_file(file.rfilename)
        if is_wanted and digest is not None and file.size is not None:
            files[file.rfilename] = _file_record(file.rfilename, file.size, digest)
    weights = [name for name in files if name.endswith((".gguf", ".safetensors"))]
    is_lone = len(weights) == 1 and weights[0].endswith(".gguf")
    unwanted = (".json", "merges.txt") if is_lone else ".gguf"  # a lone GGUF file describes itself
    files = {name: file for name, file in files.items() if not name.endswith(unwanted)}
    if not re.search(REVISION, str(info.sha or "")):
        raise HubReplyError("it names no revision")
    return PullRecord(repo, str(info.sha), str(licence or "not stated"), files)


def _file_record(name: str, size: object, digest: object) -> FileRecord:
    try:
        return msgspec.convert({"size": size, "digest": digest}, FileRecord)
    except msgspec.ValidationError:
        problem = f"it says that {name} has {str(size)[:12]!a} bytes and the hash {str(digest)[:12]!a}"
        raise HubReplyError(problem) from None


def fetch_file(record: PullRecord, name: str, folder: Path, on_bytes: OnBytes) -> None:
    """Fetches the missing part of a file; verifies it. Raises DamagedDownloadError, or errors that allow resuming."""
    file = record.files[name]
    part = folder / (name + PART_EXTENSION)
    with _open_part(part) as stream:
        if stream.tell() > file.size:
            _truncate(stream)
        tries = 0
        while stream.tell() < file.size and tries <= _TRIES:
            previous = stream.tell()
            on_bytes(previous)
            time.sleep(tries)
            try:
                _transfer(record, name, stream, on_bytes)
            except OSError:  # the disk, or an answer of the hub; a broken connection raises no OSError
                raise
            except Exception:  # of the library behind the hub's client, whichever that is
                if tries == _TRIES and stream.tell() <= previous:
                    raise
            tries = 0 if stream.tell() > previous else tries + 1  # an answer may also end early without an error
    if not is_intact(part, file):
        part.unlink()
        raise DamagedDownloadError(name)
    part.replace(folder / name)


def _open_part(part: Path) -> BinaryIO:
    """Opens an incomplete file at its end; replaces a pipe or a hard link. Raises OSError for a symbolic link."""
    with suppress(FileNotFoundError):
        status = part.lstat()
        if not stat.S_ISLNK(status.st_mode) and (not stat.S_ISREG(status.st_mode) or status.st_nlink > 1):
            part.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(part, flags, 0o644), "ab")


def _transfer(record: PullRecord, name: str, stream: BinaryIO, on_bytes: OnBytes) -> None:
    """Appends the missing part of a file. The host may redirect to another one, which does not get the token."""
    range_ = {"Range": f"bytes={stream.tell()}-"} if stream.tell() else {}
    headers = {**build_hf_headers(), "Accept-Encoding": "identity", **range_}
    url = hf_hub_url(record.repo, name, revision=record.revision)
    with get_session().stream(
        "GET", url, headers=headers, timeout=(_CONNECT_S, SILENCE_S, SILENCE_S, SILENCE_S), follow_redirects=True
    ) as response:
        hf_raise_for_status(response)
        if stream.tell() and response.status_code != HTTPStatus.PARTIAL_CONTENT:
            if (sent := response.headers.get("Content-Length", "")) not in ("", str(record.files[name].size)):
                raise HubReplyError(f"the answer has {sent[:20]} bytes and is another file than {name}")
            _truncate(stream)  # a server that sends only whole files
        for block in response.iter_bytes():
            stream.write(block)
            if stream.tell() > record.files[name].size:
                raise DamagedDownloadError(name)
            on_bytes(stream.tell())


def _truncate(stream: BinaryIO) -> None:
    stream.seek(0)  # `truncate` alone would leave the old position
    stream.truncate()


def is_intact(path: Path, file: FileRecord) -> bool:
    """Whether a file has the size and the digest of its record."""
    if not has_size(path, file.size):  # opening a pipe would block
        return False
    if len(file.digest) == hashlib.sha256().digest_size * 2:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)  # git's name for a file
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: digest).hexdigest() == file.digest

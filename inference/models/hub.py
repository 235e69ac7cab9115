"""What a hub says of a model, and the model's files, fetched and verified. The only module here that uses a network.

Through the hub's own client, which knows the user's token and proxy; its downloads begin anew after a break, so that
files are transferred here. What breaks off leaves `NAME.part`, and goes on there. What is fetched is never code.
"""

import hashlib
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, though not by mypy's rule
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from inference.models.downloads import PART, FileRecord, Pulled, is_wanted

_BLOCK_BYTES = 1 << 20
_SILENCE_S = 30.0
"""A transfer that is silent for so long is taken for broken off."""
_TRIES = 4
"""How often a transfer is tried again without a byte coming."""

OnBytes = Callable[[int], None]
"""Told how many bytes of a file are here."""


class DamagedError(Exception):
    """What was transferred is not what the hub promised. str() names the file."""


def look_up(repo: str, revision: str | None) -> Pulled:
    """What the hub has at a revision; None: the newest. Raises OSError or the client's errors."""
    info = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=_SILENCE_S)
    card = info.card_data
    licence = (card.get("license_name") or card.get("license")) if card else None
    files = {}
    for file in info.siblings or ():
        digest = file.lfs.sha256 if file.lfs else file.blob_id
        if is_wanted(file.rfilename) and digest is not None and file.size is not None:
            files[file.rfilename] = FileRecord(file.size, digest)
    return Pulled(repo, info.sha or "", str(licence or "not stated"), files)


def fetch(of: Pulled, name: str, folder: Path, on_bytes: OnBytes) -> None:
    """Transfers what is missing of a file, checks it and puts it in its place.

    Raises DamagedError, after which it begins anew; OSError or the client's errors, after which it goes on.
    """
    file, part = of.files[name], folder / (name + PART)
    with part.open("ab") as stream:
        if stream.tell() > file.size:
            _empty(stream)
        tries = 0
        while stream.tell() < file.size and tries <= _TRIES:
            before = stream.tell()
            on_bytes(before)
            time.sleep(tries)
            try:
                _transfer(of, name, stream, on_bytes)
            except OSError:  # the disk, or an answer of the hub; a broken line raises no OSError
                raise
            except Exception:  # of the library behind the hub's client, whichever that is
                if tries == _TRIES and stream.tell() <= before:
                    raise
            tries = 0 if stream.tell() > before else tries + 1  # an answer may end early without an error, too
    if not is_intact(part, file):
        part.unlink()
        raise DamagedError(name)
    part.replace(folder / name)


def _transfer(of: Pulled, name: str, stream: BinaryIO, on_bytes: OnBytes) -> None:
    """Appends what follows of a file. Its host may redirect to another one, which is not sent the token."""
    range_ = {"Range": f"bytes={stream.tell()}-"} if stream.tell() else {}
    headers = {**build_hf_headers(), "Accept-Encoding": "identity", **range_}
    url = hf_hub_url(of.repo, name, revision=of.revision)
    with get_session().stream("GET", url, headers=headers, timeout=_SILENCE_S, follow_redirects=True) as response:
        hf_raise_for_status(response)
        if stream.tell() and response.status_code != HTTPStatus.PARTIAL_CONTENT:
            _empty(stream)  # a mirror that sends whole files alone
        for block in response.iter_bytes():
            stream.write(block)
            if stream.tell() > of.files[name].size:
                raise DamagedError(name)
            on_bytes(stream.tell())


def _empty(stream: BinaryIO) -> None:
    stream.seek(0)  # `truncate` alone leaves the position where it was
    stream.truncate()


def is_intact(path: Path, file: FileRecord) -> bool:
    """Whether a file on disk is what the hub describes."""
    try:
        with path.open("rb") as stream:
            return path.stat().st_size == file.size and _digest(stream, file) == file.digest
    except FileNotFoundError:
        return False


def _digest(stream: BinaryIO, file: FileRecord) -> str:
    """The hash of a file, of the kind that `file.digest` is."""
    if len(file.digest) == hashlib.sha256().digest_size * 2:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)  # how git names a file
    while block := stream.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()

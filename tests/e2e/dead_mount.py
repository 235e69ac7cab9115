"""Mounts a file system that never answers, like a lost network drive, and becomes another program.

`unshare -Urm python -m tests.e2e.dead_mount FOLDER COMMAND...`: in a mount namespace of its own, gone with COMMAND.
"""

import ctypes
import os
import subprocess
import sys
from tempfile import TemporaryDirectory


def mount(folder: str) -> None:
    """Every access below `folder` waits for this process, which answers none. Raises OSError."""
    driver = os.open("/dev/fuse", os.O_RDWR)
    os.set_inheritable(driver, True)
    options = f"fd={driver},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"dead", folder.encode(), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "cannot mount")


def can_mount() -> bool:
    with TemporaryDirectory() as folder:
        words = ["unshare", "-Urm", sys.executable, "-m", "tests.e2e.dead_mount", folder, "true"]
        try:
            return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


if __name__ == "__main__":
    mount(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])

"""Runs a module that ends with the process that started it: `python -m inference.serving.child PID MODULE ARGUMENTS`.

Otherwise a download would continue unseen after its command was killed. `PID` is the process to end with.
"""

import os
import runpy
import sys
import threading
import time
from contextlib import suppress

import psutil

from inference.terminal import escape_unencodable_output

EXIT_ORPHANED = 1
_PARENT_CHECK_S = 0.2


def main() -> None:
    """Runs the module, and watches the parent in a thread."""
    escape_unencodable_output()
    parent = int(sys.argv[1])
    module = sys.argv[2]
    del sys.argv[1:3]
    threading.Thread(target=_end_with_parent, args=(parent,), name="parent", daemon=True).start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end_with_parent(parent: int) -> None:
    if os.name == "nt":  # which keeps the number of a parent that has ended
        with suppress(psutil.NoSuchProcess):
            psutil.Process(parent).wait()
    else:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
    os._exit(EXIT_ORPHANED)


if __name__ == "__main__":
    main()

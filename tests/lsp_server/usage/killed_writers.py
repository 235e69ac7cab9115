"""Killed writers: each is a separate process that writes endlessly to its file.

Prints, for each, how many suggestions it was told to be in the file before SIGKILL. Run with the file and how many to
kill. Processes are forked here, where no thread runs and all is imported, because that costs a hundredth of a start.
"""

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path

from lsp_server.usage.connection import UsageConnection
from tests.lsp_server.usage.events import compared, suggestion


def write_for_ever(file: Path, first: int, done: int) -> None:
    """Write suggestions, three at a time, and tell `done` of each three."""
    connection = UsageConnection(lambda: file, print)
    for key in count(first, 3):
        three = range(key, key + 3)
        if connection.write([event for one in three for event in [*suggestion(one), *compared(one)]]):
            os.write(done, b"+")


def kill_one(file: Path, first: int) -> int:
    """How many suggestions one writer has written when it was killed."""
    told, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        write_for_ever(file, first, done)
    os.close(done)
    time.sleep(random.uniform(0.005, 0.06))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with os.fdopen(told, "rb") as pipe:
        return 3 * len(pipe.read())


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        print(kill_one(Path(sys.argv[1]), number * 1_000_000 + 1))

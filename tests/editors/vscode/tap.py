"""`infill-ls serve` with a clock beside it: python tap.py LOG SERVER [ARGUMENT...], started by an editor in its stead.

Bytes go through unchanged, both ways. LOG gets one JSON line for each request and answer: its time in seconds since
1970, its id, and the method of a request; never any text.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

Note = Callable[[float, bytes], None]


def pump(source: BinaryIO, sink: BinaryIO, note: Note) -> None:
    """Passes on messages until there are no more, and notes each."""
    try:
        while head := source.readline():
            length = 0
            message = head
            while head not in (b"\r\n", b""):
                name, _, value = head.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                head = source.readline()
                message += head
            body = source.read(length)
            arrived = time.time()
            sink.write(message + body)
            sink.flush()
            note(arrived, body)
    finally:
        sink.close()


def main() -> int:
    log_file, *command = sys.argv[1:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin and server.stdout
    with Path(log_file).open("a", buffering=1) as log:

        def note(arrived: float, body: bytes) -> None:
            message = json.loads(body)
            if "id" in message:
                log.write(json.dumps({"at": arrived, "id": message["id"], "method": message.get("method")}) + "\n")

        threading.Thread(target=pump, args=(sys.stdin.buffer, server.stdin, note), daemon=True).start()
        pump(server.stdout, sys.stdout.buffer, note)
    return server.wait()


if __name__ == "__main__":
    sys.exit(main())

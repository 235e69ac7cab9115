"""Another user of the machine, as real as root can make one: a process that only passes on what it gets."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

UID = 65534
_RELAY = """
import asyncio, encodings.idna, os, sys
os.setgroups([]), os.setgid(UID), os.setuid(UID)
async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()
async def relay(reader, writer):
    there, to = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    await asyncio.gather(copy(reader, to), copy(there, writer), return_exceptions=True)
    writer.close(), to.close()
async def main():
    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
""".replace("UID", str(UID))


@contextmanager
def as_other_user(host: str, port: int) -> Iterator[int]:
    """The port of a relay to a server, which that server sees as a client of another user."""
    words = [sys.executable, "-c", _RELAY, host, str(port)]
    relay = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert relay.stdout is not None
    try:
        yield int(relay.stdout.readline())
    finally:
        relay.kill()
        relay.communicate()

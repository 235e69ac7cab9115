"""Decides who may use a listening server: the user who started it, and anybody with its token.

The system knows the user of a loopback connection, but not of connections from other machines, containers and network
namespaces.
"""

import asyncio
import hmac
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import psutil

ACCESS_HINT = (
    "the user who started the server finds it in the file http-token, and `infill-ls serve --allow-remote` prints it"
)
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_TRIES = 3
_IS_OPEN = (1, 8)
"""`TCP_ESTABLISHED` and `TCP_CLOSE_WAIT`."""
_OVERFLOW_UID = 65534
"""The uid that a user namespace shows for every user that it does not map."""
Host = IPv4Address | IPv6Address
ConnectionEnds = tuple[Host, int, Host, int]
"""The ends of a connection: the client's host and port, and the server's."""


class AccessControl:
    """Decides who needs the `token`: other users, unless `any_user`; this user only if it `is_compulsory`."""

    def __init__(self, token: str, *, is_compulsory: bool = False, any_user: bool = False) -> None:
        self._token = token.encode()
        self._needs = is_compulsory, is_compulsory or not any_user
        self._thread = ThreadPoolExecutor(1, "peers")
        self._turn = asyncio.Lock()
        self._read_s = 0.0
        self._pairs: frozenset[ConnectionEnds] = frozenset()

    def needs_token(self, *, is_user: bool) -> bool:
        return self._needs[0 if is_user else 1]

    def header_has_token(self, authorization: str) -> bool:
        """Whether the value of an `Authorization` header holds the token, compared in constant time."""
        scheme, _, token = authorization.strip().partition(" ")
        is_token = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token)
        return scheme.lower() == "bearer" and bool(self._token) and is_token

    async def is_own_user(self, connection: socket.socket) -> bool:
        """Whether the other end of a connection certainly is a process of our own user. Call it once per connection."""
        connected_s = time.monotonic()
        pair = _connection_ends(connection)
        if pair is None or not pair[0].is_loopback:
            return False
        for _ in range(_TRIES):  # a line may be missed if others come and go while the table is read
            async with self._turn:  # one reading, begun after them, does for all that wait
                if self._read_s < connected_s:
                    self._read_s = time.monotonic()
                    reading = partial(_own_connections, pair[3])
                    self._pairs = await asyncio.get_running_loop().run_in_executor(self._thread, reading)
                if pair in self._pairs:
                    return _is_open(connection)
            connected_s = time.monotonic()
        return False


def _connection_ends(connection: socket.socket) -> ConnectionEnds | None:
    """The ends of a connection; None if the other end is gone."""
    try:
        client, server = connection.getpeername(), connection.getsockname()
        return _host(client[0]), client[1], _host(server[0]), server[1]
    except (OSError, ValueError, IndexError):
        return None


def _host(text: str) -> Host:
    return _without_ipv4_mapping(ip_address(text.partition("%")[0]))


def _without_ipv4_mapping(host: Host) -> Host:
    return (host.ipv4_mapped or host) if isinstance(host, IPv6Address) else host


def _is_open(connection: socket.socket) -> bool:
    """Whether the connection is still the one that was looked up: a closed one's port may be another user's by now."""
    option = getattr(socket, "TCP_INFO", None)
    with suppress(OSError):
        return option is None or connection.getsockopt(socket.IPPROTO_TCP, option, 1)[0] in _IS_OPEN
    return False


def _own_connections(port: int) -> frozenset[ConnectionEnds]:
    """The connections of our user's processes to this port of this machine. Blocks: call it in a thread."""
    try:
        lines = [line for table in _TABLES if table.exists() for line in table.read_text("ascii").splitlines()[1:]]
    except (OSError, ValueError):
        return frozenset()
    return frozenset(_table_connections(lines, port) if lines else _process_connections(port))


def _table_connections(lines: list[str], port: int) -> set[ConnectionEnds]:
    """The connections in Linux's tables. A socket that its process has closed is listed as root's, but is nobody's."""
    uid = os.getuid()
    if uid == _OVERFLOW_UID and Path("/proc/self/uid_map").read_text("ascii").split() != ["0", "0", str(2**32 - 1)]:
        return set()
    end = f":{port:04X}"
    fields = (line.split() for line in lines if end in line)
    own = (part for part in fields if part[2].endswith(end) and part[7] == str(uid) and part[9] != "0")
    return {(*_parse_end(part[1]), *_parse_end(part[2])) for part in own}


def _parse_end(text: str) -> tuple[Host, int]:
    """The host and port of one end in a table: the host as words in the machine's own byte order."""
    host, _, port = text.partition(":")
    words = (int(host[offset : offset + 8], 16) for offset in range(0, len(host), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return _without_ipv4_mapping(IPv6Address(packed) if len(packed) == 16 else IPv4Address(packed)), int(port, 16)


def _process_connections(port: int) -> set[ConnectionEnds]:
    """The connections of the processes that the system lets us inspect."""
    user = psutil.Process().username()
    pairs = set[ConnectionEnds]()
    for process in psutil.process_iter():
        with suppress(psutil.Error, ValueError):
            if process.username() == user:
                ends = ((end.laddr, end.raddr) for end in process.net_connections("tcp"))
                pairs |= {(_host(a.ip), a.port, _host(b.ip), b.port) for a, b in ends if b and b.port == port}
    return pairs

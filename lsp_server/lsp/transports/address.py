"""The listening address, `[HOST:]PORT`, and whether only this machine can reach it."""

import argparse
import ipaddress
import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class ListenAddress:
    """A host, by name or number, and a port; 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def resolved(self) -> "ListenAddress":
        """The same with the host as a number. Raises OSError for an unknown host."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ipv4_first = sorted(found, key=lambda entry: entry[0] is not socket.AF_INET)
        return ListenAddress(str(ipv4_first[0][4][0]), self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; the address must be resolved."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback


def parse(text: str) -> ListenAddress:
    """An address from the command line; loopback without a host. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:6]) <= 65535):
        raise argparse.ArgumentTypeError(f"'{text}' is not [HOST:]PORT with a port from 0 to 65535, 0 for any free one")
    return ListenAddress(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))

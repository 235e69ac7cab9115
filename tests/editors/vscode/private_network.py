"""A network limited to this machine: programs in it reach nothing outside, and each attempt is recorded.

Run as a program in a new network namespace it is the one who watches: all addresses are routed to the loopback device,
and every packet that is for another address than this machine's is one line of its output.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.editors.places import ROOT, until

_ETHERNET_BYTES = 14
_IPV4, _IPV6 = 0x0800, 0x86DD
_OURS = ("127.", "::1", "ff02:")
_TCP, _UDP = 6, 17
_SYN, _ACK = 0x02, 0x10
_NEW = ("unshare", "--map-root-user", "--net")
_SETUP = ("link set lo up", "route add local default dev lo", "-6 route add local default dev lo")


class PrivateNetwork:
    def __init__(self, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            words = [*_NEW, sys.executable, "-m", __spec__.name]
            self._watcher = subprocess.Popen(words, stdout=output, stderr=output, cwd=ROOT)
        until(lambda: self._watcher.poll() is not None or self._lines(), "the private network is up")
        assert self._lines()[:1] == ["ready"], f"no private network: {log.read_text()}"

    def command(self, *words: str) -> list[str]:
        enter = ["nsenter", "--preserve-credentials", "--user", "--net", f"--target={self._watcher.pid}", "--"]
        return [*enter, *words]

    def attempts(self) -> list[str]:
        """Each address outside this machine that somebody tried to reach, in order."""
        return list(dict.fromkeys(self._lines()[1:]))

    def close(self) -> None:
        self._watcher.terminate()
        self._watcher.wait()

    def _lines(self) -> list[str]:
        return self._log.read_text().splitlines()


def why_impossible() -> str | None:
    """Why there can be no such network here; None where there can."""
    try:
        done = subprocess.run([*_NEW, "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    return done.stderr.strip() if done.returncode else None


def outside(packets: Iterator[bytes]) -> Iterator[str]:
    """For each attempt to reach an address outside, that address."""
    for packet in packets:
        kind, body = int.from_bytes(packet[12:14]), packet[_ETHERNET_BYTES:]
        if kind == _IPV4:
            to, protocol, data = socket.inet_ntop(socket.AF_INET, body[16:20]), body[9], body[(body[0] & 0xF) * 4 :]
        elif kind == _IPV6:
            to, protocol, data = socket.inet_ntop(socket.AF_INET6, body[24:40]), body[6], body[40:]
        else:
            continue
        port = int.from_bytes(data[2:4])
        if to.startswith(_OURS) or (protocol == _TCP and data[13] & (_SYN | _ACK) != _SYN):
            continue
        if protocol in (_TCP, _UDP):
            yield f"{to} port {port}"


def _packets() -> Iterator[bytes]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as everything:
        everything.bind(("lo", 0))
        print("ready", flush=True)
        while True:
            yield everything.recv(65_535)


def main() -> None:
    for words in _SETUP:
        subprocess.run(["ip", *words.split()], check="-6" not in words)
    for line in outside(_packets()):
        print(line, flush=True)


if __name__ == "__main__":
    main()

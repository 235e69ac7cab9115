"""The editors, servers and workers of all earlier tests requested nothing from the network."""

import subprocess
import sys

from tests.editors.places import until
from tests.editors.vscode import private_network
from tests.editors.vscode.private_network import PrivateNetwork
from tests.not_tested import not_tested

OUTSIDE = "198.51.100.7"
"""An address that belongs to nobody (RFC 5737)."""
TRY = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{OUTSIDE}', 4242))"


def test_no_address_outside_this_machine_was_asked_for_anything(network: PrivateNetwork | None) -> None:
    if network is None:
        not_tested(
            f"that nothing leaves this machine, for want of a private network: {private_network.why_impossible()}"
        )
    assert network.attempts() == []
    subprocess.run(network.command(sys.executable, "-c", TRY), check=True)
    until(lambda: network.attempts() == [f"{OUTSIDE} port 4242"], "an attempt to leave is noticed")

"""Where `--tcp` and `--ws` listen."""

import argparse

import pytest

from lsp_server.lsp.transports import ListenAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("2087", ListenAddress("127.0.0.1", 2087)),
        (":0", ListenAddress("127.0.0.1", 0)),
        ("localhost:65535", ListenAddress("localhost", 65535)),
        ("[::1]:80", ListenAddress("::1", 80)),
        ("0.0.0.0:80", ListenAddress("0.0.0.0", 80)),
    ],
)
def test_a_port_with_or_without_a_host(text: str, address: ListenAddress) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "65536", "-1", "1.5", "²", "9" * 5000])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_this_machine_reaches_loopback(host: str, is_loopback: bool) -> None:
    assert ListenAddress(host, 1).resolved().is_loopback is is_loopback

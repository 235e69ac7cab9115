"""Lenient parsing of a client's capabilities: odd ones never keep an editor from starting."""

from typing import Any

import pytest

from lsp_server.documents.positions import Encoding
from lsp_server.lsp.capabilities import ClientCapabilities, parse_client_capabilities, server_capabilities


@pytest.mark.parametrize(
    "odd", [None, [], "x", {"general": 5}, {"general": {"positionEncodings": {"a": 1}}}, {"window": []}]
)
def test_odd_capabilities_count_as_none(odd: Any) -> None:
    assert parse_client_capabilities(odd) == ClientCapabilities()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "utf-16"),
        ([], "utf-16"),
        (["utf-16"], "utf-16"),
        (["utf-8", "utf-16"], "utf-8"),
        (["utf-16", "utf-8"], "utf-16"),
        (["utf-32"], "utf-32"),
        (["utf-7", 8, "utf-8"], "utf-8"),
        (["utf-7"], "utf-16"),
    ],
)
def test_the_clients_preference_decides_how_columns_count(offered: Any, chosen: str) -> None:
    capabilities = parse_client_capabilities({"general": {"positionEncodings": offered}})
    assert capabilities.encoding is Encoding(chosen)
    assert server_capabilities(capabilities).position_encoding == chosen


def test_actions_are_lazy_only_where_edit_and_data_come_back() -> None:
    whole = {"dataSupport": True, "resolveSupport": {"properties": ["edit"]}}
    assert parse_client_capabilities({"textDocument": {"codeAction": whole}}).lazy_code_actions
    for missing in whole:
        partial = {key: value for key, value in whole.items() if key != missing}
        assert not parse_client_capabilities({"textDocument": {"codeAction": partial}}).lazy_code_actions

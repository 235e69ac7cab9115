"""Server URLs written by users: accepted ones, and refused ones with reasons."""

import pytest

from inference.messages import WorkerOptions
from inference.models.family import ModelError
from inference.remote import address, server_backend
from inference.remote.address import AddressError
from lsp_server.settings.worker_options import options_problem
from tests.inference.remote.asking import arguments


@pytest.mark.parametrize(
    ("written", "url", "place"),
    [
        ("http://localhost:8000", "http://localhost:8000", "localhost:8000"),
        ("VLLM://GPU.example:8000/", "http://gpu.example:8000", "gpu.example:8000"),
        ("HTTPS://gpu.example", "https://gpu.example", "gpu.example:443"),
        ("https://gpu.example:443/v1/", "https://gpu.example", "gpu.example:443"),
        ("https://gpu.example/team/a/v1//", "https://gpu.example/team/a", "gpu.example:443"),
        ("http://[::1]:8000/v1", "http://[::1]:8000", "[::1]:8000"),
        ("http://127.0.0.1", "http://127.0.0.1", "127.0.0.1:80"),
    ],
)
def test_a_url_is_understood_however_it_is_written(written: str, url: str, place: str) -> None:
    assert address.is_url(written)
    found = address.parse_server_url(written)
    assert (found.url, found.host_and_port) == (url, place)
    assert address.parse_server_url(found.url) == found


@pytest.mark.parametrize("model", ["embedded", "owner/name", "/models/a", "./http:", "C:\\models", "C://models", ""])
def test_a_name_or_a_folder_is_no_url(model: str) -> None:
    assert not address.is_url(model)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://me:hush@gpu.example", "INFILL_LS_SERVER_TOKEN"),
        ("https://gpu.example?token=hush", "a query or a fragment"),
        ("https://gpu.example/#hush", "a query or a fragment"),
        ("ftp://gpu.example", "must be http, https or vllm"),
        ("https://", "lacks a host"),
        ("https://:8000", "lacks a host"),
        ("https://gpu.example:0", "or a port"),
        ("https://gpu.example:70000", "is not a URL"),
        ("https://[::1", "is not a URL"),
        ("https://gpu.example\r\nHost: other", "a space or a control character"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(url: str, said: str) -> None:
    with pytest.raises(AddressError, match="model: ") as refused:
        address.parse_server_url(url)
    assert said in str(refused.value)
    assert "hush" not in str(refused.value) and "me:" not in str(refused.value)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"])
def test_this_machine_needs_no_encryption(host: str) -> None:
    found = address.parse_server_url(f"http://{host}:8000")
    assert found.is_local and not found.sending_problem(plain_http=False)


@pytest.mark.parametrize(
    "host",
    [
        *("gpu", "gpu.example", "10.0.0.7", "127.0.0.1.example", "localhost.example", "a.localhost"),
        *("[fe80::1]", "[::ffff:10.0.0.7]"),
    ],
)
def test_another_machine_needs_encryption_or_the_users_word(host: str) -> None:
    plain, encrypted = address.parse_server_url(f"http://{host}:8000"), address.parse_server_url(f"https://{host}:8000")
    assert not plain.is_local
    for said in ("https", "ssh -N -L 8000:localhost:8000", "server.plainHttp", "--plain-http"):
        assert said in plain.sending_problem(plain_http=False)
    assert not plain.sending_problem(plain_http=True)
    assert not encrypted.sending_problem(plain_http=False)


async def test_a_partner_is_refused_by_its_own_settings() -> None:
    server = ("model:", "server.plainHttp", "server-token", "INFILL_LS_SERVER")
    for url in ("http://server-token.example", "http://me:secret@example.com", "ftp://example.com"):
        with pytest.raises(ModelError) as refused:
            await server_backend.connect(arguments(url, partner="auto"), lambda *_: None)
        said = str(refused.value).replace("server-token.example", "")
        assert "partner" in said and not any(word in said for word in server)
        assert options_problem(WorkerOptions(url, partner="auto")) == str(refused.value)

"""A model server's address: parses the URL that a user gives as `model`, and rejects unsafe ones. Opens nothing.

For both packages: the language server names its worker by the address, and the worker connects to it.
"""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

SCHEMES = {"http": "http", "https": "https", "vllm": "http"}
"""The supported schemes and their meanings."""
_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_EXAMPLE = "such as http://localhost:8000 or https://gpu.example.com"


@dataclass(frozen=True)
class ServerSettingNames:
    """The names of a server's settings: for its URL, for plain http, and of the variable with its token."""

    url: str
    plain_http: str
    token_variable: str
    token_file: str


MODEL_SERVER = ServerSettingNames(
    "model",
    "server.plainHttp, INFILL_LS_SERVER_PLAIN_HTTP=1 or --plain-http",
    "INFILL_LS_SERVER_TOKEN",
    "server-token",
)
PARTNER_SERVER = ServerSettingNames(
    "partner.url", "partner.plainHttp or INFILL_LS_PARTNER_PLAIN_HTTP=1", "INFILL_LS_PARTNER_TOKEN", "partner-token"
)
"""No server gets another server's token."""
EDIT_MODEL_SERVER = ServerSettingNames(
    "nextEdit.model",
    "nextEdit.plainHttp or INFILL_LS_NEXT_EDIT_PLAIN_HTTP=1",
    "INFILL_LS_NEXT_EDIT_TOKEN",
    "next-edit-token",
)
OWN_ENDPOINT = ServerSettingNames("--http", "", "INFILL_LS_HTTP_TOKEN", "http-token")
"""Our own endpoint, for other programs."""


def setting_names_of(*, edits: str | None, partner: str | None) -> ServerSettingNames:
    """The setting names of a worker's server, by the worker's options."""
    return EDIT_MODEL_SERVER if edits else PARTNER_SERVER if partner else MODEL_SERVER


class AddressError(ValueError):
    """A URL is unusable. str() says why, and what to write instead."""


@dataclass(frozen=True)
class ServerAddress:
    """A server's address. `url` is in normal form, without a path's last slash and without `/v1`."""

    url: str
    host: str
    port: int
    is_encrypted: bool

    @property
    def host_and_port(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether the host is certainly this machine, by its name alone."""
        try:
            host_address = ipaddress.ip_address(self.host)
        except ValueError:
            return self.host == "localhost"
        mapped = host_address.ipv4_mapped if isinstance(host_address, ipaddress.IPv6Address) else None
        return (mapped or host_address).is_loopback

    def sending_problem(self, *, plain_http: bool, role: ServerSettingNames = MODEL_SERVER) -> str | None:
        """Why no text may be sent to the server; None if it may. `plain_http`: the user allows unencrypted requests."""
        if self.is_encrypted or self.is_local or plain_http:
            return None
        return (
            f"{self.url} is not encrypted, and anyone on the way could read your code; use https, or a tunnel such "
            f"as `ssh -N -L {self.port}:localhost:{self.port} {self.host}` with http://localhost:{self.port}; to send "
            f"it all the same, set {role.plain_http}"
        )


def is_url(model: str) -> bool:
    """Whether `model` is meant as a server, valid or not, rather than a checkpoint."""
    return _URL.match(model) is not None


def parse_server_url(url: str, role: ServerSettingNames = MODEL_SERVER) -> ServerAddress:
    """The server at a URL. Raises AddressError, which names the settings of its role."""
    if any(character.isspace() or not character.isprintable() for character in url):
        raise AddressError(f"{role.url}: the URL {url[:200]!r} has a space or a control character in it; remove it")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        port = parts.port
    except ValueError as error:
        raise AddressError(f"{role.url}: {_shown(url)} is not a URL: {error}; write one {_EXAMPLE}") from None
    if parts.scheme not in SCHEMES:
        raise AddressError(f"{role.url}: {_shown(url)} has the scheme {parts.scheme}; it must be http, https or vllm")
    if "@" in parts.netloc:
        raise AddressError(
            f"{role.url}: {_shown(url)} has a user or a password in it, which other programs could see; leave it out "
            f"and put what the server asks for in {role.token_variable} or the file {role.token_file}"
        )
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise AddressError(f"{role.url}: {_shown(url)} has a query or a fragment, which no server needs; leave it out")
    if not host or port == 0:
        raise AddressError(f"{role.url}: {_shown(url)} lacks a host or a port; write a URL {_EXAMPLE}")
    scheme = SCHEMES[parts.scheme]
    host = host.lower()
    bracketed_host = f"[{host}]" if ":" in host else host
    path = re.sub(r"/v1$", "", parts.path.rstrip("/")).rstrip("/")
    suffix = "" if port in (None, _PORTS[scheme]) else f":{port}"
    return ServerAddress(f"{scheme}://{bracketed_host}{suffix}{path}", host, port or _PORTS[scheme], scheme == "https")


def _shown(url: str) -> str:
    """A URL for a message, without anything that may be a password or a token."""
    return repr(re.sub(r"[?#].*", "…", re.sub(r"(?<=://)[^/?#]*@", "…@", url))[:200])

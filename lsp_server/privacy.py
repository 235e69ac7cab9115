"""Which files may be read and sent to the model.

A pattern without a slash is compared with the file's name, one with a slash with the end of its path; `*` also spans
folders and case does not count. Knows no LSP types, and opens nothing.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from lsp_server.settings import Settings

SECRET_GLOBS = (
    *(".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.p8", "*.ppk", "*.jks", "*.keystore"),
    *("*.kdbx", "*.gpg", "*.asc", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.ovpn", "*.tfvars", "*.tfstate"),
    *("*.tfvars.json", "*.tfstate.*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd"),
    *(".git-credentials", ".dockercfg", ".docker/config.json", ".kube/config", "kubeconfig", ".vault-token"),
    *(".ssh/*", ".aws/*", ".gnupg/*", ".azure/*", ".gcloud/*", ".password-store/*", "service-account*.json"),
    *(
        f"{name}{end}"
        for name in ("credentials", "secrets", "secret")
        for end in ("", ".json", ".y*ml", ".toml", ".ini")
    ),
    *("*credentials*.json", "*.secret", "*.secrets", "authorized_keys", "master.key", "appsettings.secrets.json"),
)
"""Never read, never sent, whatever the settings say."""


def path_of(uri: str) -> str:
    """The path in a document's URI, with slashes; of a URI without one (`untitled:Untitled-1`) its name."""
    return unquote(urlsplit(uri).path)


def is_secret(path: str, settings: Settings) -> bool:
    """Whether the file must not be read."""
    return _matches(path, SECRET_GLOBS) or _matches(path, settings.secret_globs)


def why_off(path: str, language: str, settings: Settings) -> str | None:
    """Why this document gets no fills; None when it does."""
    if is_secret(path, settings):
        return "files like this one may hold secrets and are never read"
    if language in settings.disabled_languages:
        return f"fills are switched off for {language} (disabledLanguages)"
    if _matches(path, settings.disabled_globs):
        return "fills are switched off for this file (disabledGlobs)"
    return None


def _matches(path: str, globs: Iterable[str]) -> bool:
    whole = "/" + path.lower().lstrip("/")
    name = PurePosixPath(whole).name
    return any(
        fnmatchcase(whole, f"*/{glob.lower().lstrip('/')}") if "/" in glob else fnmatchcase(name, glob.lower())
        for glob in globs
    )

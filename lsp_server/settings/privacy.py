"""Decide which files may be read and sent to the model.

A pattern without a slash is compared with the file's name, one with a slash with the end of its path; `*` also spans
folders and case does not count. Knows no LSP types, and opens nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

from lsp_server.settings.schema import Settings

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
    *("*-secret.y*ml", "*-secrets.y*ml", "*.secret.y*ml", "*.secrets.y*ml", "client_secret*.json", "*adminsdk*.json"),
    *(".flaskenv", ".dev.vars", "local.settings.json", ".vault_pass*", "vault.y*ml", "*.token", ".api_key*"),
    *(".kube/*", "*.kubeconfig", ".terraform/*", ".terraformrc", "terraform.rc", ".config/gcloud/*", ".boto", ".s3cfg"),
    *("*.keytab", "*.jceks", "*.bks", "*.pkcs12", "*.pkcs8", "*.kdb", "*.keychain*", "*.agekey", "secring.*"),
    *(".mylogin.cnf", "pgpass.conf", ".yarnrc.yml", ".m2/settings*.xml", ".gradle/gradle.properties", ".config/gh/*"),
    *(".*_history", "etc/shadow", "sftp-config.json", ".ftpconfig"),
)
"""Never read, never sent, whatever the settings say."""


@dataclass(frozen=True)
class ReadableFolder:
    """A workspace folder whose files may be read, at any depth, and the settings that hold there."""

    root: Path
    settings: Settings


def innermost_folder(path: Path, folders: Sequence[ReadableFolder]) -> ReadableFolder | None:
    """The innermost of `folders` that holds `path`, by its name alone; None where none does."""
    holding = [folder for folder in folders if path.is_relative_to(folder.root)]
    return max(holding, key=lambda folder: len(folder.root.parts), default=None)


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


def _matches(path: str, globs: tuple[str, ...]) -> bool:
    whole = "/" + path.lower().strip("/")
    return _pattern(globs).match(whole) is not None


@lru_cache(maxsize=64)
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    """What a whole path is compared with; compiled once, for it is asked with every key."""
    return re.compile("|".join(_translated(glob.lower()) for glob in globs) or r"(?!)")


def _translated(glob: str) -> str:
    if "/" in glob:
        return translate(f"*/{glob.lstrip('/')}")
    return r"(?s:.*/)(?=[^/]*\Z)" + translate(glob)

"""Recognises by path whether a file may hold secrets. Never by its content: opens nothing.

The names come from the tables of shhgit and gitrob, gitleaks' rules for paths, GitHub's templates for ignore files, and
the places where tools keep their credentials; other scanners, such as trufflehog, look only at contents. Case does not
count. A copy made by an editor or a person (`.env~`, `key.pem.txt`, `.token.swp`) counts as its original, and so does
another spelling of a name (`.env.`, `.env::$DATA`, `HEAD:.env`).

A word such as `secrets` in a name counts only if the file is data or has no extension: `secrets.py`, `tokenizer.py` and
`credentials_form.tsx` are code. An example (`.env.example`, `secrets.dist.yml`) does not count either, unless it is a
key.
"""

import re
import unicodedata
from fnmatch import translate
from functools import lru_cache
from posixpath import normpath

_FOLDERS = """
    .ssh .aws .azure .gcloud .oci .kube .minikube .gnupg .password-store .pki .terraform .terraform.d .chef
    .putty .purple .snowsql .snowflake .supabase .acme.sh .step .thunderbird .mozilla/firefox .git-crypt
    .config/gcloud .config/gh .config/hub .config/glab-cli .config/doctl .config/rclone .config/op .config/sops
    .subversion/auth .config/age .config/configstore .config/hcloud .config/stripe library/keychains
    .local/share/keyrings run/secrets etc/wireguard etc/letsencrypt etc/ssl/private
"""
"""Everything in them, at any depth, including code."""
_PATHS = """
    .docker/config.json .git/config .gem/credentials .bundle/config .m2/settings*.xml .gradle/gradle.properties
    .nuget/nuget.config .irssi/config .weechat/sec.conf .fly/config.yml .vscode/sftp.json
    .s3conf/s3config.yml etc/master.passwd etc/shadow etc/shadow- etc/gshadow etc/gshadow- config/credentials/*.enc
"""
_KEYS = """
    *.pem *.key *.p12 *.pfx *.p8 *.pkcs8 *.pkcs12 *.ppk *.pvk *.snk *.jks *.jceks *.bks *.bcfks *.keystore *.truststore
    *.keytab *.keychain *.keychain-db *.agilekeychain *.kdb *.kdbx *.psafe3 *.opvault *.1pif *.kwallet *.bek *.agekey
    *.jwk *.gpg *.asc *.private_key *.ovpn *.mobileprovision secring.* utc--* wallet.dat authorized_keys
    id_rsa id_dsa id_ecdsa id_ed25519 id_xmss *_rsa *_dsa *_ecdsa *_ed25519 ssh_host_*_key
"""
"""Keys and key stores, including examples of them."""
_FILES = """
    .env .env.* .env-* .env_* *.env .envrc .envrc.local .flaskenv .dev.vars .dev.vars.*
    .netrc _netrc .authinfo .msmtprc .fetchmailrc .offlineimaprc .muttrc .htpasswd proftpdpasswd
    .npmrc .yarnrc.yml .pypirc pip.conf pip.ini auth.json auth.toml .dockercfg .dockerconfigjson .git-credentials
    .pgpass pgpass.conf .pg_service.conf .my.cnf .mylogin.cnf robomongo.json .*_history fish_history .erlang.cookie
    .s3cfg .boto .passwd-s3fs .edgerc .databrickscfg .sentryclirc .tugboat rclone.conf kaggle.json *.kubeconfig
    service-account*.json service_account*.json client_secret*.json *credentials*.json *adminsdk*.json
    google-services.json googleservice-info.plist logins.json *.tfvars *.tfvars.json *.tfstate *.tfstate.* .terraformrc
    terraform.rc .vault_pass* vault_pass* vault-pass* .vault-token vault.yml vault.yaml *.secret *.secrets *.secret.y*ml
    *.token .api_key* key.properties keystore.properties signing.properties appsettings.secrets.json local.settings.json
    *.publishsettings *.azurepubxml *.cscfg unattend.xml autounattend.xml sysprep.xml sysprep.inf
    sftp-config.json .ftpconfig .remote-sync.json filezilla.xml recentservers.xml sitemanager.xml winscp.ini
    wg[0-9].conf wpa_supplicant*.conf *.nmconnection
    wp-config.php localsettings.php local_settings.py arduino_secrets.h secret_token.rb
    secrets.sh credentials.sh secrets.ps1 credentials.ps1 secrets.bat credentials.bat
"""
"""Fixed names; some are code, because people keep passwords in just these."""
_DATA = r"(?:\.(?:json[5c]?|ya?ml|toml|ini|cfg|conf|config|properties|xml|plist|txt|csv|tsv|env|dat|db|enc|age|b64))"
_WORDS = (
    rf"(?:.*[-_. ])?(?:credentials?|secrets|(?:api|private|priv|access|secret)[-_]?keys?|rootkey|kubeconfig){_DATA}*",
    rf"(?:credentials|secrets)[-_. ].*{_DATA}",
    rf"(?:secret|token|passwords?|passwd|passphrase|mnemonic){_DATA}*",
    r"(?:.*[-_. ])?secret(?:\.ya?ml)?",
    r"(?:.*[-_. ])?(?:secret|token|passwords?|passwd|passphrase)(?:\.(?:txt|csv|tsv))?",
    r"id_(?:rsa|dsa|ecdsa|ed25519|xmss)[-_.][^.]*(?:\.pub)?",
)
"""Regular expressions for a name without its leading dot."""
_COPY = re.compile(
    r"(?<=.)(?:\.un~|~|[-_. ](?:bak|backup|old|orig|original|copy|saved?|prev|tmp|temp|disabled)(?: ?\d+)?|\.sw[a-p]"
    r"|\.\d[\d_.:t-]*|\.(?:rpm|dpkg-|ucf-)[a-z]+|(?: - copy)? ?\(\d+\)| - copy"
    r"|\.(?:txt|log|git|new|rej|b64|base64|hex|enc)|@(?:head|[0-9a-f]{7,40})[~^\d]*"
    r"| \((?:head|index|working tree|deleted|ours|theirs|[0-9a-f]{7,40})\))\Z",
    re.IGNORECASE,
)
_COPY_OF = re.compile(r"(?:copy|backup) (?:\(\d+\) )?of ", re.IGNORECASE)
_STREAM = re.compile(r"(?<=[^/])[:!\0][^/]*")
"""What NTFS, git or an archive's reader takes for a part or a version of the file in front of it."""
_SEPARATOR = re.compile("[:!]")
_MAX_COPIES = 8
"""Of a copy of a copy."""
_EXAMPLE = re.compile(
    r"[-_.](?:example|sample|template|tmpl|tpl|dist)(?=(?:\.\w+)?\Z)|\A(?:example|sample|template)(?=\.env\Z)"
)
_COMMANDS = ("/bin/", "/sbin/", "/libexec/", "/scripts/")
"""There, a file without an extension is a program: `bin/change-password`."""
_TRANSLATIONS = re.compile(r"/(?:locales?|langs?|languages?|i18n|l10n|translations?)/")
"""There, a word in a name is the file's topic: `locales/en/password.json`."""


def _any_of(globs: str) -> str:
    return "|".join(translate(glob) for glob in globs.split())


_FOLDER = "|".join(map(re.escape, _FOLDERS.split()))
_SECRET_PATH = re.compile(rf"(?:.*/)(?:(?:{_FOLDER})/.*|(?:{_any_of(_PATHS)}))", re.DOTALL)
_SECRET_KEY = re.compile(_any_of(_KEYS))
_SECRET_FILE = re.compile(_any_of(_FILES))
_SECRET_WORD = re.compile("|".join(f"(?:{words})" for words in _WORDS))


@lru_cache(maxsize=1024)
def is_secret_name(path: str) -> bool:
    """Whether a file at `path` (with slashes) may hold secrets. Cached, because every keystroke asks."""
    return any(map(_is_secret, originals_of(f"/{path.lower().strip('/')}")))


@lru_cache(maxsize=1024)
def originals_of(path: str) -> tuple[str, ...]:
    """`path`, its other spellings, and if its name marks it as a copy, its possible originals."""
    return tuple(dict.fromkeys(original for each in _spellings_of(path) for original in _originals_of(each)))


def _spellings_of(path: str) -> tuple[str, ...]:
    """`path` as given, and as some file system or tool reads it.

    Windows drops dots and spaces at the end of each part, macOS invisible characters; a colon may begin an NTFS stream
    or separate a version and a path, an exclamation mark an archive and a path in it.
    """
    seen = "".join(sign for sign in path if unicodedata.category(sign) != "Cf")
    plain = unicodedata.normalize("NFKC", seen).replace("\\", "/")
    return path, *(_tidied(each) for each in (plain, _STREAM.sub("", plain), _SEPARATOR.sub("/", plain)))


def _tidied(path: str) -> str:
    parts = (part.strip().rstrip(". ") for part in normpath(path).split("/"))
    return "/" + "/".join(part for part in parts if part)


def _originals_of(path: str) -> tuple[str, ...]:
    folder, slash, name = path.rpartition("/")
    found = [name]
    if name.startswith("#") and name.endswith("#"):  # what Emacs saves by itself
        found.append(name.strip("#"))
    found.append(found[-1].removeprefix(".#"))  # its lock
    found.append(_COPY_OF.sub("", found[-1], count=1))
    for _ in range(_MAX_COPIES):
        copy = _COPY.search(found[-1])
        if copy is None:
            break
        found.append(found[-1][: copy.start()])
        if copy[0].startswith((".sw", ".un")):  # Vim has put a dot in front, unless there was one
            found.append(found[-1].removeprefix("."))
    return tuple(f"{folder}{slash}{original}" for original in found)


def _is_secret(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    if _SECRET_PATH.fullmatch(path) or _SECRET_KEY.fullmatch(_EXAMPLE.sub("", name)):
        return True
    if _EXAMPLE.search(name) or (_TRANSLATIONS.search(path) and not name.startswith(".")):
        return False
    is_command = "." not in name and f"{folder}/".endswith(_COMMANDS)
    return bool(_SECRET_FILE.fullmatch(name) or (not is_command and _SECRET_WORD.fullmatch(name.lstrip("."))))

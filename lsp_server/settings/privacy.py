"""Decides which files may be read and sent to the model: by their names and the user's settings. Opens nothing.

A user's pattern without a slash is compared with the file's name, one with a slash with the end of its path; `*` also
spans folders and case does not count.

The names come from shhgit, gitrob, gitleaks, GitHub's templates for ignore files, and the places where tools keep their
credentials. Case and invisible characters do not count. A copy made by an editor or a person (`.env~`, `key.pem.txt`,
`.token.swp`) counts as its original, and so does another spelling of a name (`.env.`, `.env::$DATA`, `HEAD:.env`). The
part before a separator counts as a name (`.env@tip`, `.env;1`), and a key's extension counts anywhere (`key.pem.md`);
after a space or a bracket the last extension stays, so `token list.py` is code.

A word such as `secrets` counts only if the file is data or has no extension: `secrets.py` is code. Words of
`serviceAccountKey` count as those of `service-account-key`. An example (`.env.example`, `secrets.dist.yml`) does not
count either, unless it is a key, nor does a name that says what its data is about (`special_tokens_map.json`). The
user's `allowedSecretGlobs` take files from this list.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from itertools import islice
from pathlib import Path
from posixpath import normpath
from typing import Any

from lsp_server.settings.schema import Settings
from lsp_server.syntax.lines import is_invisible

_PATTERNS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("secret_files.toml").read_text("utf-8"))
_FOLDERS, _TOOLS, _PATHS = _PATTERNS["folders"], _PATTERNS["tools"], _PATTERNS["paths"]
_KEYS, _FILES = _PATTERNS["keys"], _PATTERNS["files"]
_CONFIG = r"(?:\.config|application support|appdata/(?:roaming|local))"
"""Where tools keep a user's settings on Linux, macOS and Windows."""
_DATA, _NOUNS = (_PATTERNS[name].replace("\n", "") for name in ("data", "nouns"))
_TOPIC, _DESIGN_TOKENS = (re.compile(_PATTERNS[name].replace("\n", "")) for name in ("topic", "design_tokens"))
_WORDS = [pattern.replace("NOUNS", _NOUNS).replace("DATA", _DATA) for pattern in _PATTERNS["words"]]
_ALWAYS = re.compile(rf"(?:.*[-_. ])?(?:credentials?|secrets)(?:[-_. ].*)?{_DATA}|.*\.(?:txt|csv|tsv)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Between the words of `serviceAccountKey`."""
_COPY = re.compile(
    r"(?<=.)(?:\.un~|~|[-_.](?:bak|backup|old|orig|original|copy|saved?|prev|tmp|temp|disabled)(?: ?\d+)?|\.sw[a-p]"
    r"|\.\d[\d_.:t-]*|\.(?:rpm|dpkg-|ucf-)[a-z]+|\.(?:txt|log|git|new|rej|b64|base64|hex|enc)|[. ]+)\Z",
    re.IGNORECASE,
)
_COPY_OF = re.compile(r"(?:copy|backup) (?:\(\d+\) )?of ", re.IGNORECASE)
_APART = re.compile(r"(?<=[^ ])(?:[;,~]|(?P<keeps_extension>[ (]))")
"""Separates a name from the mark of a copy or a version."""
_STREAM = re.compile(r"(?<=[^/])[:!\0][^/]*")
"""What NTFS, git or an archive's reader takes for a part or a version of the file before it."""
_VERSION = re.compile(r"(?<=[^/])[:!@\0]")
"""Separates the name of a file from a version or a part of it."""
_SEPARATOR = re.compile("[:!%]")
"""Vim and Emacs write a whole path into the name of a backup, with `%` or `!` for its slashes."""
_MAX_NAMES, _MAX_VERSIONS, _MAX_NAME_CHARACTERS = 32, 32, 255
"""How many originals and how many separators of one path are looked at, and how much of a name is split."""
_TYPES = "|".join(glob.removeprefix("*.") for glob in _KEYS.split() if glob.startswith("*."))
_KEY_INSIDE = re.compile(
    rf".*\.(?!(?:key|keystore|asc)\.(?:[cm]?[jt]sx?|py|go|rs|rb|java|kt|cs|cpp|[ch]|php|lua|vue)\Z)(?:{_TYPES})\."
)
"""A key's extension before another one; before one of code not those that are words of code, too."""
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
_TOOL = "|".join(map(re.escape, _TOOLS.split()))
_SECRET_FOLDER = re.compile(rf".*/((?:{_FOLDER}|{_CONFIG}/(?:{_TOOL}))(?=/.))", re.DOTALL)
_SECRET_PATH = re.compile(rf"(?:.*/)(?:{_any_of(_PATHS)})", re.DOTALL)
_SECRET_KEY = re.compile(_any_of(_KEYS))
_SECRET_FILE = re.compile(_any_of(_FILES))
_SECRET_WORD = re.compile("|".join(f"(?:{words})" for words in _WORDS))


@lru_cache(maxsize=1024)
def secret_rule(path: str) -> str | None:
    """Why a file at `path` (with slashes) may hold secrets: the rule of the built-in list, in words. None if it may
    not. Cached, because every keystroke asks.
    """
    spellings = dict.fromkeys((path, _CAMEL.sub("-", path)))
    originals = (
        original for spelling in spellings for original in possible_originals(f"/{spelling.lower().strip('/')}")
    )
    return next((rule for original in originals if (rule := _rule_of(original))), None)


@lru_cache(maxsize=1024)
def possible_originals(path: str) -> tuple[str, ...]:
    """`path`, its other spellings, and if its name marks it as a copy, its possible originals."""
    return tuple(dict.fromkeys(original for spelling in _spellings_of(path) for original in _originals_of(spelling)))


def _spellings_of(path: str) -> tuple[str, ...]:
    """`path` as given, and as file systems and tools read it, which trim its parts or split them at some signs."""
    visible = "".join(sign for sign in path if sign == "\0" or not is_invisible(sign))
    plain = unicodedata.normalize("NFKC", visible).replace("\\", "/")
    parts = (_SEPARATOR.sub("/", spelling) for spelling in (plain, *_before_versions(plain)))
    return path, *(_trim_parts(spelling) for spelling in (plain, _STREAM.sub("", plain), *parts))


def _before_versions(path: str) -> Iterator[str]:
    """Yields the text before each separator. Package managers put `@1.2` after folder names: `token@1.2/a.js`."""
    for match in islice(_VERSION.finditer(path), _MAX_VERSIONS):
        head = path[: match.start()]
        if match[0] != "@" or "/" not in path[match.end() :] or "." in head.rpartition("/")[2]:
            yield head


def _trim_parts(path: str) -> str:
    parts = (part.strip().rstrip(". ") for part in normpath(path).split("/"))
    return "/" + "/".join(part for part in parts if part)


def _originals_of(path: str) -> tuple[str, ...]:
    folder, slash, name = path.rpartition("/")
    names = [name]
    for copy in names:  # which grows
        new = [original for original in _shorter(copy) if original and original not in names]
        names += new[: _MAX_NAMES - len(names)]
    return tuple(f"{folder}{slash}{original}" for original in names)


def _shorter(name: str) -> Iterator[str]:
    """What `name` is a copy or a version of, if it is one."""
    if name.startswith("#") and name.endswith("#"):  # what Emacs saves by itself
        yield name.strip("#")
    yield name.removeprefix(".#")  # its lock
    yield _COPY_OF.sub("", name, count=1)
    if copy := _COPY.search(name):
        yield name[: copy.start()]
        if copy[0].startswith((".sw", ".un")):  # Vim has put a dot in front, unless there was one
            yield name[: copy.start()].removeprefix(".")
    head = name[:_MAX_NAME_CHARACTERS]
    for match in _APART.finditer(head):
        dot = head.rfind(".", match.end()) if match["keeps_extension"] else -1
        yield head[: match.start()] + (head[dot:] if dot >= 0 else "")


def _rule_of(path: str) -> str | None:
    folder, _, name = path.rpartition("/")
    if match := _SECRET_FOLDER.match(path):
        return f"everything in {match[1]}"
    if _SECRET_PATH.fullmatch(path):
        return _glob_of(_PATHS, path)
    if _SECRET_KEY.fullmatch(_EXAMPLE.sub("", name)) or _KEY_INSIDE.match(name):
        return _glob_of(_KEYS, _EXAMPLE.sub("", name)) or "a key's extension inside the name"
    if _EXAMPLE.search(name) or (_TRANSLATIONS.search(path) and not name.startswith(".")):
        return None
    is_command = "." not in name and f"{folder}/".endswith(_COMMANDS)
    if _SECRET_FILE.fullmatch(name) and not is_command:
        return _glob_of(_FILES, name)
    name = name.lstrip(".")[-_MAX_NAME_CHARACTERS:]
    if is_command or not _SECRET_WORD.fullmatch(name) or (_TOPIC.match(name) and not _ALWAYS.fullmatch(name)):
        return None
    if _DESIGN_TOKENS.fullmatch(path):
        return None
    return "words such as token, password or key in the name of a data file"


def _glob_of(globs: str, name: str) -> str | None:
    """The first glob of a name, or of a path that ends with it."""
    return next((glob for glob in globs.split() if fnmatchcase(f"/{name}", f"*/{glob}")), None)


def is_secret(path: str, settings: Settings) -> bool:
    return secret_reason(path, settings) is not None


def secret_reason(path: str, settings: Settings) -> str | None:
    """The rule or the setting by which a file must not be read; None if it may be."""
    rule = secret_rule(path)
    if rule is not None and not matches_globs(path, settings.allowed_secret_globs):
        return f"the built-in rule for {rule}"
    globs = settings.secret_globs
    is_named = bool(globs) and any(matches_globs(name, globs) for name in possible_originals(path))
    return "secretGlobs" if is_named else None


def matches_globs(path: str, globs: tuple[str, ...]) -> bool:
    """Whether one of a user's patterns is of a file at `path` (with slashes)."""
    whole = "/" + path.lower().strip("/")
    return _pattern(globs).match(whole) is not None


@lru_cache(maxsize=64)
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    """The pattern for a whole path; cached, because every keystroke asks."""
    return re.compile("|".join(_translate_glob(glob.lower()) for glob in globs) or r"(?!)")


def _translate_glob(glob: str) -> str:
    if "/" in glob:
        return translate(f"*/{glob.lstrip('/')}")
    return r"(?s:.*/)(?=[^/]*\Z)" + translate(glob)

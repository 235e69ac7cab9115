"""Reads the token that a server asks for: from the environment, or from a file that nobody else can read.

Only the worker's process reads it. It goes into no argument, no log and no message.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from inference.models.family import ModelError

_LONGEST = 4096


@dataclass(frozen=True)
class Place:
    """Where a token is looked for: the environment variable, and the name of the file."""

    variable: str
    name: str


SERVER = Place("INFILL_LS_SERVER_TOKEN", "server-token")
"""The token of the server that has the model."""
PARTNER = Place("INFILL_LS_PARTNER_TOKEN", "partner-token")
"""The partner's token. Neither server is sent the other's token."""


def token_file(place: Place = SERVER) -> Path:
    """Where the file is, in the user's own configuration, whether it is there or not."""
    return platformdirs.user_config_path("infill-ls", appauthor=False) / place.name


def read(environment: Mapping[str, str] = os.environ, place: Place = SERVER) -> str:
    """The token; empty where there is none. Raises ModelError, which says what to do."""
    if found := environment.get(place.variable, "").strip():
        return _checked(found, f"the environment variable {place.variable}")
    file = token_file(place)
    try:
        return _read(file)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ModelError(
            f"{file} cannot be read: {error.strerror}; make it a file of yours alone, or remove it"
        ) from error


def source(environment: Mapping[str, str] = os.environ, place: Place = SERVER) -> str:
    """Where the token is taken from, for the user; empty where there is none."""
    if environment.get(place.variable, "").strip():
        return place.variable
    return str(token_file(place)) if os.path.lexists(token_file(place)) else ""


def _read(file: Path) -> str:
    """Raises OSError or ModelError. A link is not followed, and what is no file is not waited for."""
    if file.is_symlink():
        raise ModelError(f"{file} is a link, which may lead anywhere; put the token into a file of that name itself")
    quick = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(file, quick)
    try:
        _require_private(file, os.fstat(descriptor))
        content = os.read(descriptor, _LONGEST + 3)  # a line break behind it is none of it
    finally:
        os.close(descriptor)
    text = content.decode("latin-1").strip()
    if not text:
        raise ModelError(f"{file} is empty; write the server's token into it, or remove it")
    return _checked(text, str(file))


def _require_private(file: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise ModelError(f"{file} is no file; put a file with the server's token in its place, or remove it")
    if os.name == "nt":  # the user's profile is private there
        return
    if about.st_uid != os.getuid():
        raise ModelError(f"{file} belongs to another user, who knows the token then; put one of your own in its place")
    if about.st_mode & 0o077:
        raise ModelError(f"other users can read {file}; run: chmod 600 {file}")


def _checked(text: str, where: str) -> str:
    """The token, if it can stand in an HTTP header. Raises ModelError, which does not show it."""
    if len(text) > _LONGEST:
        raise ModelError(f"the token in {where} has more than {_LONGEST} characters; it is something else")
    if not all("!" <= character <= "~" for character in text):
        raise ModelError(
            f"the token in {where} has a line break, a space or another character that no token has; write it alone, "
            "on one line"
        )
    return text

"""Reads the token that a server asks for: from the environment, or from a file that nobody else can read.

Only the worker's process reads it. It goes into no argument, no log and no message.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from inference.models.family import ModelError

VARIABLE = "INFILL_LS_SERVER_TOKEN"
NAME = "server-token"
_LONGEST = 4096


def token_file() -> Path:
    """Where the file is, in the user's own configuration, whether it is there or not."""
    return platformdirs.user_config_path("infill-ls", appauthor=False) / NAME


def read(environment: Mapping[str, str] = os.environ) -> str:
    """The token; empty where there is none. Raises ModelError, which says what to do."""
    if found := environment.get(VARIABLE, "").strip():
        return _checked(found, f"the environment variable {VARIABLE}")
    file = token_file()
    try:
        return _read(file)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ModelError(
            f"{file} cannot be read: {error.strerror}; make it a file of yours alone, or remove it"
        ) from error


def source(environment: Mapping[str, str] = os.environ) -> str:
    """Where the token is taken from, for the user; empty where there is none."""
    if environment.get(VARIABLE, "").strip():
        return VARIABLE
    return str(token_file()) if os.path.lexists(token_file()) else ""


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

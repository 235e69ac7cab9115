"""Reads a server's token from the environment, or from a file that nobody else can read.

Only the worker reads it, and our own server, which creates its token. It never appears in an argument, a log or a
message; only a server for other machines prints its token at its start.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp

import platformdirs

from inference.models.family import ModelError
from inference.remote.address import MODEL_SERVER, ServerSettingNames
from inference.remote.file_privacy import permission_problem

_MAX_CHARACTERS = 4096


def token_file(role: ServerSettingNames = MODEL_SERVER) -> Path:
    """The path of the file in the user's own configuration, existing or not."""
    return platformdirs.user_config_path("infill-ls", appauthor=False) / role.token_file


def read_token(environment: Mapping[str, str] = os.environ, role: ServerSettingNames = MODEL_SERVER) -> str:
    """The token; empty if there is none. Raises ModelError, which says what to do and does not show it."""
    source_name = f"the environment variable {role.token_variable}"
    text = environment.get(role.token_variable, "").strip()
    if not text:
        file = token_file(role)
        source_name = str(file)
        try:
            text = _read_token_file(file)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise ModelError(
                f"{file} cannot be read: {error.strerror}; make it readable by you alone, or remove it"
            ) from error
    if len(text) > _MAX_CHARACTERS:
        raise ModelError(f"the token in {source_name} has more than {_MAX_CHARACTERS} characters; it is something else")
    if not all("!" <= character <= "~" for character in text):  # an HTTP header takes no others
        raise ModelError(
            f"the token in {source_name} has a line break, a space or another character that no token has; "
            "write it alone, on one line"
        )
    return text


def read_or_create_token(role: ServerSettingNames) -> str:
    """The token of our own server; makes the file if there is none. Raises ModelError; OSError if it cannot write."""
    if not read_token(role=role):
        file = token_file(role)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, new = mkstemp(prefix=f"{file.name}.", dir=file.parent)  # private from the first moment
        try:
            with os.fdopen(descriptor, "w") as stream:
                stream.write(f"{secrets.token_urlsafe(32)}\n")
            try:
                os.link(new, file)  # unlike a rename, it leaves the file of a server that starts at the same time
            except FileExistsError:
                pass
            except OSError:  # the file system has no hard links
                Path(new).replace(file)
        finally:
            Path(new).unlink(missing_ok=True)
    return read_token(role=role)


def token_source(environment: Mapping[str, str] = os.environ, role: ServerSettingNames = MODEL_SERVER) -> str:
    """Where the token comes from, for the user; empty if there is none."""
    if environment.get(role.token_variable, "").strip():
        return role.token_variable
    return str(token_file(role)) if os.path.lexists(token_file(role)) else ""


def _read_token_file(file: Path) -> str:
    """Raises OSError or ModelError. Follows no link, and never blocks on something that is not a file."""
    status = file.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise ModelError(f"{file} is a link, which may lead anywhere; put the token into a regular file of that name")
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{file} is not a file; replace it by a file with the server's token, or remove it")
    if problem := permission_problem(file, status, "who then knows the token; replace it by your own file"):
        raise ModelError(problem)
    with file.open("rb") as stream:  # not all of a file that is something else
        text = stream.read(_MAX_CHARACTERS + 3).decode("latin-1").strip()  # without a line break at its end
    if not text:
        raise ModelError(f"{file} is empty; write the server's token into it, or remove it")
    return text

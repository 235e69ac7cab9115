"""Converts the URIs of documents to paths. Knows no LSP types, and opens nothing."""

from os.path import normpath
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname


def local_path(uri: str) -> Path | None:
    """The absolute path of a `file:` URI on this machine, with `..` resolved by name alone; None for any other URI."""
    path = path_as_given(uri)
    return None if path is None else Path(normpath(path))


def path_as_given(uri: str) -> Path | None:
    """The same path with `..` left in it, which behind a link leads elsewhere than its name says."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
        return None
    path = Path(url2pathname(parts.path))
    return path if path.is_absolute() else None


def place_of(uri: str) -> PurePath:
    """Where a document or folder is, to be compared with another place; for no `file:` URI, the URI itself."""
    return local_path(uri) or PurePosixPath(uri)


def path_of(uri: str) -> str:
    """The path in a document's URI, with slashes; for a URI without one (`untitled:Untitled-1`), its name.

    For what is no URI, such as a plain Windows path: all of it that may name a file.
    """
    try:
        path = urlsplit(uri).path
    except ValueError:  # such as an address whose bracket is not closed
        path = uri
    return unquote(path).replace("\\", "/")

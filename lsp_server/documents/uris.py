"""Documents' URIs and the paths of local files. Knows no LSP types, and opens nothing."""

from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname


def local_path(uri: str) -> Path | None:
    """The absolute path of a `file:` URI on this machine, `..` resolved by name alone; None for any other URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
        return None
    path = Path(normpath(url2pathname(parts.path)))
    return path if path.is_absolute() else None

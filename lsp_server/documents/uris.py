"""Converts the URIs of documents to paths, and follows the links on a path. Knows no LSP types, and opens nothing."""

import os
import re
from functools import lru_cache
from os.path import normpath
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

_MAX_CACHED = 256
"""How many URIs to remember: each is asked several times for each keystroke."""
_PIECE = re.compile(r'[^?#&=;,"{}]+')


@lru_cache(_MAX_CACHED)
def local_path(uri: str) -> Path | None:
    """The absolute path of a `file:` URI on this machine, with `..` resolved by name alone; None for any other URI."""
    path = unresolved_path(uri)
    return None if path is None else Path(normpath(path))


@lru_cache(_MAX_CACHED)
def unresolved_path(uri: str) -> Path | None:
    """The same path keeping `..`, which after a link leads elsewhere than its name suggests."""
    parts = _split(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in unquote(_whole(parts)):
        return None
    path = Path(url2pathname(_path_in(parts)))
    return path if path.is_absolute() else None


def comparable_path(uri: str) -> PurePath:
    """The path of a document or folder, for comparisons; for a URI other than `file:`, the URI itself."""
    return local_path(uri) or PurePosixPath(uri)


def uri_path(uri: str) -> str:
    """The path in a document's URI, with slashes; for `untitled:Untitled-1` its name, for a Windows path all of it."""
    return unquote(_path_in(_split(uri))).replace("\\", "/")


def file_name(uri: str) -> str:
    """The last part of that path."""
    return uri_path(uri).rpartition("/")[2]


@lru_cache(_MAX_CACHED)
def possible_paths(uri: str) -> tuple[str, ...]:
    """Every path that a URI may mean: with `?` and `#` as parts of its name, with its escapes kept, and for any URI but
    a `file:`, such as one that shows two versions of a file, the values in its query.
    """
    parts = _split(uri)
    paths = [uri_path(uri), unquote(_whole(parts))]
    if parts.scheme != "file":
        paths += _values(unquote(f"{parts.query}#{parts.fragment}"))
    paths += [again for path in paths for again in (unquote(path), unquote(unquote(path)))]
    return tuple(dict.fromkeys(path.replace("\\", "/") for path in paths))


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:  # such as an address whose bracket is not closed
        return SplitResult("", "", uri, "", "")


def _values(query: str) -> list[str]:
    """The values in a query, given as `name=value` pairs or JSON."""
    return [match[0] for match in _PIECE.finditer(query) if not query.startswith(("=", '":'), match.end())]


def _path_in(parts: SplitResult) -> str:
    """The path, plus the text after `?` or `#` if these cannot start a query or a fragment."""
    whole = _whole(parts)
    tail = parts.query + parts.fragment
    means_itself = parts.scheme == "file" and ("/" in tail or parts.path.endswith("/"))
    return whole if means_itself else parts.path


def _whole(parts: SplitResult) -> str:
    return urlunsplit(("", "", parts.path, parts.query, parts.fragment))


MAX_LINKS = 40
"""As many as Linux follows; more form a circle."""


def paths_via_links(path: Path) -> tuple[Path, ...]:
    """Every path under which a file is known: `path`, the target of each link on the way, and finally the real path.
    May take as long as the file system: not for an event loop.
    """
    try:
        return tuple(dict.fromkeys([path, *_link_steps(path), Path(os.path.realpath(path))]))
    except (OSError, ValueError):
        return (path,)


def _link_steps(path: Path) -> list[Path]:
    """The path with its first link replaced, then with the next one replaced too, and so on."""
    paths: list[Path] = []
    resolved = Path(path.anchor)
    remaining_parts = list(reversed(path.parts[1:]))
    while remaining_parts and len(paths) < MAX_LINKS:
        part = remaining_parts.pop()
        if part == "..":
            resolved = resolved.parent
            continue
        try:
            target = Path(os.readlink(resolved / part))  # noqa: PTH115 - Path's raises the same, and is slower
        except OSError:  # it is not a link, or does not exist
            resolved /= part
            continue
        resolved /= target.anchor
        remaining_parts += reversed(target.parts[1:] if target.anchor else target.parts)
        paths.append(Path(normpath(resolved.joinpath(*reversed(remaining_parts)))))
    return paths

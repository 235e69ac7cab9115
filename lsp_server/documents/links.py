"""Follows the links on a path. Opens nothing, but may take as long as the file system: not for an event loop."""

import os
from os.path import normpath
from pathlib import Path

MAX_LINKS = 40
"""As many as Linux follows; more form a circle."""


def names_of(path: Path) -> tuple[Path, ...]:
    """Every path under which a file is known: `path`, the target of each link on the way, and finally the real path."""
    try:
        return tuple(dict.fromkeys([path, *_steps(path), Path(os.path.realpath(path))]))
    except (OSError, ValueError):
        return (path,)


def _steps(path: Path) -> list[Path]:
    """The path with its first link replaced, then with the next one replaced too, and so on."""
    found: list[Path] = []
    done = Path(path.anchor)
    left = list(reversed(path.parts[1:]))
    while left and len(found) < MAX_LINKS:
        part = left.pop()
        if part == "..":
            done = done.parent
            continue
        try:
            target = Path(os.readlink(done / part))  # noqa: PTH115 - Path's raises the same, and is slower
        except OSError:  # it is not a link, or does not exist
            done /= part
            continue
        done /= target.anchor
        left += reversed(target.parts[1:] if target.anchor else target.parts)
        found.append(Path(normpath(done.joinpath(*reversed(left)))))
    return found

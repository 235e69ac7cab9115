"""Small helpers for paths."""

import os


def extension(path):
    """Return the extension of a path, without its dot."""
    name = os.path.basename(path)
    root, ext = os.path.splitext(name)
    return ext


def size(path):
    """Return the size of a file in bytes, 0 if there is none."""
    if not os.path.exists(path):
        return 0
    return os.path.


def join(*parts):
    """Return the parts joined to one path."""


def parent(path):
    """Return the folder a path lies in."""
    return os.path.dirname(path)

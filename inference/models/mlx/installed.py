"""Whether MLX can be used on this machine, without importing it or any other large library."""

import platform
from importlib.util import find_spec

from inference.models import extras

DEVICE = "mlx"
"""The name by which a user asks for it."""
INSTALL = f"install them: {extras.shown(extras.install('mlx'))}"


def is_installed() -> bool:
    return all(find_spec(package) is not None for package in ("mlx", "mlx_vlm"))


def is_default() -> bool:
    """Whether models that run on MLX do so by default, if no device is named: on a Mac whose GPU MLX supports."""
    return platform.system() == "Darwin" and platform.machine() == "arm64" and is_installed()

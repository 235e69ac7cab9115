"""The commands that install missing packages, matching how infill-ls was installed here.

`pip install` in a user's shell may reach another Python than infill-ls has. Imports no large library.
"""

import platform
import re
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

_PLAIN = re.compile(r"[\w@%+=:,./\\~-]+")


def install_command(extra: str, prefix: str = sys.prefix) -> list[str]:
    """The arguments of the command that adds an extra of infill-ls to the environment at `prefix`."""
    package = f"infill-ls[{extra}]"
    folder = Path(prefix)
    if (folder / "pipx_metadata.json").exists():
        return ["pipx", "runpip", folder.name, "install", package]
    # In an environment that uv has made there is none. `find_spec` would tell setuptools that pip is running, and then
    # torch.compile, which needs setuptools, fails.
    if PathFinder.find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", sys.executable, package]
    return [sys.executable, "-m", "pip", "install", package]


def is_apple_silicon() -> bool:
    return sys.platform == "darwin" and platform.machine() == "arm64"


def mlx_advice() -> str:
    """How to use this Mac's GPU; "" if mlx is installed, or this is no such Mac."""
    if not is_apple_silicon() or find_spec("mlx"):
        return ""
    return f"to use the Apple GPU run: {format_command(install_command('mlx'))}"


def format_command(arguments: Sequence[str]) -> str:
    """A command for a user to type: double quotes work in the shells of Unix, PowerShell and cmd.exe."""
    return " ".join(item if _PLAIN.fullmatch(item) else f'"{item}"' for item in arguments)

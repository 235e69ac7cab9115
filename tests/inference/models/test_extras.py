"""The command suggested to a user, by the way infill-ls was installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from inference.models import extras


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("uv-receipt.toml", 'uv tool install "infill-ls[4bit]"'),
        ("pipx_metadata.json", 'pipx runpip infill-ls install "infill-ls[4bit]"'),
        ("pyvenv.cfg", f'{sys.executable} -m pip install "infill-ls[4bit]"'),
    ],
)
def test_an_extra_goes_where_infill_ls_is(tmp_path: Path, file: str, command: str) -> None:
    folder = tmp_path / "infill-ls"
    folder.mkdir()
    (folder / file).touch()
    assert extras.shown(extras.install("4bit", str(folder))) == command


def test_install_command_names_our_python() -> None:
    python, *words = extras.install("mlx")
    assert words == ["-m", "pip", "install", "infill-ls[mlx]"]
    subprocess.run([python, "-P", "-c", "import inference.models.extras"], cwd="/", check=True)


def test_a_path_with_a_space_is_one_word() -> None:
    assert extras.shown(["/a b/python", "-m", "pip"]) == '"/a b/python" -m pip'


def test_looking_for_pip_leaves_setuptools_as_it_is() -> None:
    """torch.compile imports it. It mistakes the usual lookup of pip for pip itself, and then fails."""
    words = [sys.executable, "-c", "from inference.models import extras; extras.install('mlx'); import setuptools"]
    subprocess.run(words, check=True)

"""Every name of a file is found, however its links are made, even broken ones."""

import os
from itertools import product
from pathlib import Path

import pytest

from lsp_server.documents.uris import names_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder on whose own path there is no link."""
    return tmp_path.resolve()


def relative(root: Path, path: Path) -> list[str]:
    return [str(name.relative_to(root)) for name in names_of(path)]


def test_a_file_without_links_has_one_name(root: Path) -> None:
    (root / "a.py").touch()
    assert relative(root, root / "a.py") == ["a.py"]
    assert relative(root, root / "not/there.py") == ["not/there.py"]


def test_each_link_on_the_way_gives_a_name(root: Path) -> None:
    (root / "deep/.ssh").mkdir(parents=True)
    (root / "keys").symlink_to(root / "deep/.ssh", target_is_directory=True)
    (root / "deep/.ssh/config").symlink_to("../notes.txt")
    (root / "a.py").symlink_to("keys/config")
    assert relative(root, root / "a.py") == ["a.py", "keys/config", "deep/.ssh/config", "deep/notes.txt"]


def test_a_step_back_behind_a_link_leads_where_the_system_goes(root: Path) -> None:
    (root / "home/.ssh").mkdir(parents=True)
    (root / "link").symlink_to("home/.ssh", target_is_directory=True)
    assert relative(root, root / "link/../x.py")[-1] == "home/x.py"


def test_links_in_circles_have_the_names_on_the_circle(root: Path) -> None:
    (root / "to").symlink_to("fro")
    (root / "fro").symlink_to("to")
    assert {"to", "fro"} <= set(relative(root, root / "to"))
    (root / "more").symlink_to("more/more/more")
    assert len(names_of(root / "more")) < 100


def test_the_last_name_is_the_real_one(root: Path) -> None:
    """Of every chain of three links between folders and files, some of which lead nowhere."""
    targets = ["a/f", "../b", "b/../a", "c", ".", "./a/./g", str(root / "a")]
    (root / "a/b").mkdir(parents=True)
    (root / "a/f").touch()
    for number, chain in enumerate(product(targets, repeat=3)):
        folder = root / f"links{number}"
        folder.mkdir()
        (folder / "a").symlink_to(root / "a", target_is_directory=True)
        for name, target in zip(("x", "b", "c"), chain, strict=True):
            (folder / name).symlink_to(target)
        for name in ("x", "x/f", "x/../g", "b/x"):
            assert names_of(folder / name)[-1] == Path(os.path.realpath(folder / name))

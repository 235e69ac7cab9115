"""Paths in the URIs of documents, in all editors' spellings, and every name of a file, however its links are made."""

import os
from itertools import product
from pathlib import Path

import pytest

from lsp_server.documents.uris import local_path, paths_via_links, possible_paths, uri_path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///p/a%20b.py", "/p/a b.py"),
        ("file:///c%3A/p/.env", "/c:/p/.env"),
        ("untitled:Untitled-1", "Untitled-1"),
        ("vscode-remote://host/p/.env", "/p/.env"),
        ("file:///w/c#/.env", "/w/c#/.env"),
        ("file:///w/what?/%61.py", "/w/what?/a.py"),
        ("file:///w/#.env#", "/w/#.env#"),
        ("vscode-notebook-cell:/p/a.ipynb#W1/x", "/p/a.ipynb"),
        ("", ""),
    ],
)
def test_the_path_in_a_uri_has_slashes_and_no_escapes(uri: str, path: str) -> None:
    assert uri_path(uri) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///p/a%20b.py", Path("/p/a b.py")),
        ("file://localhost/p/a.py", Path("/p/a.py")),
        ("file:///p/q/../a.py", Path("/p/a.py")),
        ("file:///w/c#/a.py", Path("/w/c#/a.py")),
        ("file://elsewhere/p/a.py", None),
        ("file:///p/%00.py", None),
        ("file:///p#/%00.py", None),
        ("untitled:Untitled-1", None),
        ("http://[broken/a.py", None),
    ],
)
def test_only_a_file_on_this_machine_has_a_local_path(uri: str, path: Path | None) -> None:
    assert local_path(uri) == path


def test_a_sign_that_may_be_part_of_a_name_gives_another_path() -> None:
    assert possible_paths("file:///p/a.py") == ("/p/a.py",)
    assert possible_paths("file:///p/.env#1") == ("/p/.env", "/p/.env#1")
    assert possible_paths("file:///p/%252Eenv") == ("/p/%2Eenv", "/p/.env")
    assert possible_paths("http://[broken/a.py") == ("http://[broken/a.py",)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder on whose own path there is no link."""
    return tmp_path.resolve()


def relative(root: Path, path: Path) -> list[str]:
    return [str(name.relative_to(root)) for name in paths_via_links(path)]


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
    assert len(paths_via_links(root / "more")) < 100


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
            assert paths_via_links(folder / name)[-1] == Path(os.path.realpath(folder / name))

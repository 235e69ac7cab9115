"""Paths in the URIs of documents, in all editors' spellings."""

from pathlib import Path

import pytest

from lsp_server.documents.uris import local_path, path_of, possible_paths


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
    assert path_of(uri) == path


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

"""What the packages import is what pyproject.toml declares, so that an installation does not depend on luck."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"lsp_server", "inference"}
NOT_FOR_USERS = {"dev"}
"""Extras whose packages are for working on the project."""
_GRAMMAR = re.compile(r"(tree_sitter_\w+):\w+")


def declared() -> set[str]:
    """The distributions of `dependencies` and of every extra that is for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    optional = [requirement for name, some in extras if name not in NOT_FOR_USERS for requirement in some]
    return {name_of(requirement) for requirement in [*project["dependencies"], *optional]}


def name_of(requirement: str) -> str:
    """The distribution that a requirement is for, spelt as package indexes spell it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@cache
def imports() -> dict[str, str]:
    """The third-party packages that what we ship imports, wherever in a file, each with one place that does."""
    files = [file for package in sorted(OURS) for file in sorted((ROOT / package).rglob("*.py"))]
    return {
        package: f"{file.relative_to(ROOT)}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        for package in _packages(node)
        if package not in OURS | sys.stdlib_module_names
    }


def _packages(node: ast.AST) -> Iterator[str]:
    """The top-level packages that one node imports; language tables name their grammars in strings."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module.partition(".")[0]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := _GRAMMAR.fullmatch(node.value)):
        yield named[1]


def undeclared(distributions: set[str]) -> dict[str, str]:
    """The imports that none of `distributions` brings."""
    owners = packages_distributions()
    return {
        package: place
        for package, place in imports().items()
        if not {name_of(owner) for owner in owners.get(package, [package])} & distributions
    }


def test_every_import_is_of_a_declared_dependency() -> None:
    assert undeclared(declared()) == {}


@pytest.mark.parametrize(
    ("distribution", "package"),
    [
        ("attrs", "attrs"),
        ("huggingface-hub", "huggingface_hub"),
        ("msgspec", "msgspec"),
        ("tree-sitter-python", "tree_sitter_python"),
    ],
)
def test_a_dependency_that_is_missing_is_noticed(distribution: str, package: str) -> None:
    assert set(undeclared(declared() - {distribution})) == {package}


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {name_of(line) for line in lines if line and not line.startswith("#")}
    assert declared() <= pinned

"""What the packages import is what pyproject.toml declares, so that an installation does not depend on luck."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp

from lsp_server.syntax.languages import TABLES

ROOT = Path(__file__).parent.parent
OURS = {"lsp_server", "inference"}
NOT_FOR_USERS = {"dev"}
"""Extras whose packages are for working on the project."""
BROUGHT_ALONG = {"triton"}
"""Packages that a dependency brings where we use them: torch, on CUDA."""


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


def imported() -> set[str]:
    """The third-party packages that what we ship imports, wherever in a file, and the grammars that its tables name."""
    graph = grimp.build_graph(*OURS, include_external_packages=True)
    names = {name.partition(".")[0] for name in graph.modules}
    return (names | {table.grammar.partition(":")[0] for table in TABLES}) - OURS - sys.stdlib_module_names


def test_every_import_is_of_a_declared_dependency() -> None:
    owners, users = packages_distributions(), declared()
    owned = {name: {name_of(owner) for owner in owners.get(name, [name])} for name in imported()}
    assert [name for name, brought_by in owned.items() if not brought_by & (users | BROUGHT_ALONG)] == []


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {name_of(line) for line in lines if line and not line.startswith("#")}
    assert declared() - {"infill-ls"} <= pinned

"""The files for registries and releases are valid, agree with each other, and name what exists."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lsp_server.cli import main

ROOT = Path(__file__).parents[1]
EDITORS = ROOT / "editors"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTENSION = json.loads((EDITORS / "vscode" / "package.json").read_text("utf-8"))
LSPCONFIG = EDITORS / "nvim" / "lspconfig" / "infill_ls.lua"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_SEMANTIC = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z.-]+)?")
_PINNED = re.compile(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)")


def loaded(file: Path) -> Any:
    return yaml.safe_load(file.read_text("utf-8"))


def test_all_name_one_version_and_one_address() -> None:
    package = loaded(EDITORS / "mason" / "package.yaml")
    assert _SEMANTIC.fullmatch(PROJECT["version"])
    assert EXTENSION["version"] == PROJECT["version"]
    assert package["source"]["id"] == f"pkg:pypi/{PROJECT['name']}@{PROJECT['version']}"
    address = PROJECT["urls"]["Homepage"]
    assert package["homepage"] == address
    assert EXTENSION["repository"]["url"] == f"{address}.git"
    assert EXTENSION["bugs"]["url"] == f"{address}/issues"
    assert address in LSPCONFIG.read_text("utf-8")


def test_masons_package_has_what_its_schema_requires() -> None:
    package = loaded(EDITORS / "mason" / "package.yaml")
    required = {"name", "description", "homepage", "licenses", "languages", "categories", "source"}
    assert required <= set(package) <= required | {"bin", "neovim"}
    assert package["bin"] == {name: f"pypi:{name}" for name in PROJECT["scripts"]}
    assert package["licenses"] == [PROJECT["license"]] and package["categories"] == ["LSP"]
    assert package["neovim"]["lspconfig"] == LSPCONFIG.stem


def test_the_marketplaces_have_what_they_show() -> None:
    for name in ("publisher", "displayName", "description", "icon", "license", "categories", "keywords", "homepage"):
        assert EXTENSION[name], name
    assert len(EXTENSION["keywords"]) <= 30  # vsce's limit
    assert (EDITORS / "vscode" / EXTENSION["icon"]).is_file()
    for name in ("README.md", "CHANGELOG.md", "LICENSE"):
        assert (EDITORS / "vscode" / name).is_file()


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_uses_known_actions_and_targets(file: Path) -> None:
    workflow = loaded(file)
    assert workflow["permissions"] == {"contents": "read"}, "a job asks for more by itself"
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    jobs = workflow["jobs"]
    for job in jobs.values():
        assert {job.get("needs", "")} <= {*jobs, ""}
        assert "runner." not in str(job.get("env")), "there is no runner yet"
        for step in job["steps"]:
            assert ("uses" in step) is not ("run" in step)
            assert "uses" not in step or _PINNED.fullmatch(step["uses"])
            assert set(re.findall(r"\bmake ([\w-]+)", step.get("run", ""))) <= targets


def test_only_the_job_that_publishes_gets_an_identity() -> None:
    jobs = loaded(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["pypi"]
    assert jobs["pypi"]["environment"] == "pypi" and jobs["pypi"]["needs"] == "build"


def test_the_command_tells_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.split()[1] == PROJECT["version"]

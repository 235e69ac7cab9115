"""The configuration files of editors that do not run here are at least valid, and start an existing command."""

import json
from typing import Any

import pytest

from tests.editors.places import EDITORS, ROOT

JSON = ["zed/settings.json", "sublime/LSP.sublime-settings", "kate/settings.json"]


@pytest.mark.parametrize("name", JSON)
def test_it_is_json_that_starts_the_server(name: str) -> None:
    lines = (EDITORS / name).read_text().splitlines()
    settings = json.loads("\n".join(line for line in lines if not line.startswith("//")))
    assert any(command[:2] == ["infill-ls", "serve"] for command in commands(settings)), settings


def test_the_readme_starts_the_plugin_as_its_own_readme_does() -> None:
    lines = (EDITORS / "nvim" / "README.md").read_text().split("```lua\n")[1].split("```")[0]
    assert f"```lua\n{lines}```" in (ROOT / "README.md").read_text()


def commands(settings: Any) -> list[list[str]]:
    if isinstance(settings, list):
        return [found for value in settings for found in commands(value)]
    if not isinstance(settings, dict):
        return []
    program = settings.get("command", settings.get("path"))
    words = [program] if isinstance(program, str) else program or []
    words = [*words, *settings.get("args", []), *settings.get("arguments", [])]
    return [words] * bool(words) + [found for value in settings.values() for found in commands(value)]

"""The extension's manifest and lists match the server's; `npm run check` compares the settings."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from lsp_server.handlers.execute_command import COMMANDS
from lsp_server.settings.schema import ONLY_LESS, START_TAG, STARTUP, Settings
from tests.editors.places import EDITORS

EXTENSION = EDITORS / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text())


def listed(name: str) -> set[str]:
    source = (EXTENSION / "src" / "settings.ts").read_text()
    found = re.search(name + r": readonly string\[\] = \[(.*?)\]", source, re.S)
    assert found
    return set(re.findall(r"'([\w.]+)'", found[1]))


def test_what_is_read_only_at_start_is_the_servers_list() -> None:
    names = {field.name: field.encode_name for field in msgspec.structs.fields(Settings)}
    properties = MANIFEST["contributes"]["configuration"]["properties"]
    tagged = {name.split(".")[1] for name, found in properties.items() if START_TAG in found.get("tags", ())}
    assert tagged == {names[name] for name in STARTUP}


def test_what_only_start_options_switch_on_takes_a_restart() -> None:
    assert listed("ONLY_LESS") == {".".join(keys(Settings(), path)) for path in ONLY_LESS}


def keys(settings: Any, path: tuple[str, ...]) -> Iterator[str]:
    for name in path:
        fields = {field.name: field.encode_name for field in msgspec.structs.fields(settings)}
        yield fields[name]
        settings = getattr(settings, name)


def test_every_command_of_a_key_or_menu_is_there() -> None:
    contributes = MANIFEST["contributes"]
    there = {command["command"] for command in contributes["commands"]}
    used = [*contributes["keybindings"], *(entry for menu in contributes["menus"].values() for entry in menu)]
    assert {entry["command"] for entry in used} <= there
    fills = re.search(r"const FILLS = \[(.*?)\]", (EXTENSION / "src" / "commands.ts").read_text())
    assert fills
    assert {f"infill-ls.{name}" for name in re.findall(r"'(\w+)'", fills[1])} <= set(COMMANDS)


def test_tab_stays_with_vs_code_where_no_next_edit_is_shown() -> None:
    ours = [key for key in MANIFEST["contributes"]["keybindings"] if "tab" in key["key"].lower()]
    assert [key["when"].split(" && ")[0] for key in ours] == ["infill.nextEdit"]

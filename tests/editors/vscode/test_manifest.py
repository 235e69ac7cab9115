"""The extension's manifest and lists match the server's. Needs neither VS Code nor Node.js."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from lsp_server.handlers.execute_command import COMMANDS
from lsp_server.settings.schema import START_TAG, STARTUP, USER_WIDENS, Settings, json_schema
from tests.editors.places import EDITORS

EXTENSION = EDITORS / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text())
OWN = json.loads((EXTENSION / "scripts" / "own_settings.json").read_text())


def expected() -> Iterator[tuple[str, dict[str, Any], Any, str]]:
    """Each setting of the server: its name in VS Code, its schema, its default and who may set it."""
    for name, found in json.loads(json.dumps(json_schema()))["properties"].items():
        if found.get("type") == "object" and "properties" in found:
            for part, inner in found["properties"].items():
                yield f"infill.{name}.{part}", inner, found["default"][part], found["scope"]
        else:
            yield f"infill.{name}", found, found["default"], found["scope"]


def test_the_settings_are_those_of_the_server() -> None:
    contributed = dict(MANIFEST["contributes"]["configuration"]["properties"])
    for name, found, default, scope in expected():
        ours = contributed.pop(name)
        assert (ours["default"], ours["scope"]) == (default, scope), name
        kept = {key: value for key, value in found.items() if key not in ("default", "description", "scope")}
        assert {key: ours.get(key) for key in kept} == kept, f"{name}: run npm run settings in editors/vscode"
    assert set(contributed) == set(OWN)


def test_what_is_read_only_at_start_is_the_servers_list() -> None:
    names = {field.name: field.encode_name for field in msgspec.structs.fields(Settings)}
    properties = MANIFEST["contributes"]["configuration"]["properties"]
    tagged = {name.split(".")[1] for name, found in properties.items() if START_TAG in found.get("tags", ())}
    assert tagged == {names[name] for name in STARTUP}


def test_what_only_start_options_switch_on_takes_a_restart() -> None:
    source = (EXTENSION / "src" / "settings.ts").read_text()
    found = re.search(r"USER_WIDENS: readonly string\[\] = \[(.*?)\]", source, re.S)
    assert found
    ours = {re.sub("_(.)", lambda letter: letter[1].upper(), ".".join(path)) for path in USER_WIDENS}
    assert set(re.findall(r"'([\w.]+)'", found[1])) == ours


def test_every_command_of_a_key_or_menu_is_there() -> None:
    contributes = MANIFEST["contributes"]
    there = {command["command"] for command in contributes["commands"]}
    used = [*contributes["keybindings"], *(entry for menu in contributes["menus"].values() for entry in menu)]
    assert {entry["command"] for entry in used} - there == {"editor.action.inlineSuggest.acceptNextWord"}
    fills = re.search(r"const FILLS = \[(.*?)\]", (EXTENSION / "src" / "commands.ts").read_text())
    assert fills
    assert {f"infill-ls.{name}" for name in re.findall(r"'(\w+)'", fills[1])} <= set(COMMANDS)


def test_tab_stays_with_vs_code_where_no_next_edit_is_shown() -> None:
    ours = [key for key in MANIFEST["contributes"]["keybindings"] if "tab" in key["key"].lower()]
    assert [key["when"].split(" && ")[0] for key in ours] == ["infill.nextEdit"]

"""Settings requested from the editor, settings files, and workspaces with several folders."""

from pathlib import Path
from typing import Any

from tests.e2e.conftest import Start
from tests.e2e.raw_client import RawClient, capable
from tests.e2e.user import User
from tests.lsp_server.settings.test_configuration import folder
from tests.workers import poll

OFF = 'disabledLanguages = ["python"]'
SWITCH = {"disabledLanguages": ["python"]}
ASKED = capable(
    workspace__configuration=True,
    workspace__didChangeConfiguration={"dynamicRegistration": True},
    workspace__didChangeWatchedFiles={"dynamicRegistration": True},
)
"""Those of an editor that lets itself be asked for settings, and watches files."""


async def asked(start: Start, settings: dict[str | None, Any], *folders: Path) -> RawClient:
    """An editor with these settings, by the URI of the folder where they hold."""

    def answer(params: Any) -> list[Any]:
        found = [(settings.get(item.get("scopeUri"), settings[None]), item["section"]) for item in params["items"]]
        return [its.get(section) for its, section in found]

    client = await start(initialize=False)
    client.answers["workspace/configuration"] = answer
    await client.initialize(None, ASKED, folders)
    return client


def opened(client: RawClient, folder: Path, text: str = "x = 1\n") -> User:
    return User(client, text, uri=(folder / "main.py").as_uri())


async def is_off(user: User) -> bool:
    return (await user.client.status(user.uri))["off"] is not None


async def test_the_editor_is_asked_for_the_settings_of_each_folder(start: Start, tmp_path: Path) -> None:
    a, b = folder(tmp_path, "a"), folder(tmp_path, "b")
    client = await asked(start, {None: {"infill-ls": {"debounceMs": 5}}, a.as_uri(): {"infill": SWITCH}}, a, b)
    in_a, in_b = opened(client, a), opened(client, b)
    await poll(lambda: is_off(in_a), bool)
    assert not await is_off(in_b)
    assert client.shown == []


async def test_a_change_without_settings_makes_the_server_ask_again(start: Start, tmp_path: Path) -> None:
    settings: dict[str | None, Any] = {None: {}}
    client = await asked(start, settings, tmp_path)
    user = opened(client, tmp_path)
    assert not await is_off(user)
    (registered,) = client.told("client/registerCapability")
    assert [each["method"] for each in registered["registrations"]] == ["workspace/didChangeConfiguration"]
    settings[None] = {"infill-ls": {**SWITCH, "markr": 1}}
    client.send({"method": "workspace/didChangeConfiguration", "params": {"settings": None}})
    await poll(lambda: is_off(user), bool)
    (message,) = client.shown
    assert "settings: unknown setting 'markr' (did you mean 'marker'?)" in message


async def test_settings_files_are_reread_on_save_and_open(start: Start, tmp_path: Path) -> None:
    file = folder(tmp_path, "a", OFF) / "infill-ls.toml"
    client = await start(None, folders=[file.parent])
    user = opened(client, file.parent)
    assert await is_off(user)
    file.write_text("disabledLanguages = 7")
    user.says("textDocument/didSave")
    assert not await is_off(user)
    (message,) = client.shown
    assert message.startswith(f"infill-ls: {file}: disabledLanguages: ")
    assert client.told("client/registerCapability") == []
    file.unlink()
    assert not await is_off(opened(client, file.parent))

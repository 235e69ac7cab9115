"""A document is judged by the targets of its links: no part of a secret is kept or reaches the worker, by any name."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lsp_server.worker import WorkerClient, WorkerOptions
from tests.e2e.conftest import PATIENT
from tests.e2e.dead_mount import can_mount
from tests.e2e.raw_client import EVERYWHERE, SERVER, RawClient
from tests.e2e.relay import Relay, relay_to
from tests.e2e.user import User
from tests.workers import fill, poll

MARKED = "total = ‸???\n"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def relayed(runtime_folder: Path) -> AsyncIterator[tuple[Relay, RawClient]]:
    """A client behind a relay. Another client keeps the worker from ending because nobody asks it."""
    async with WorkerClient(WorkerOptions(), name="tests") as worker:
        await worker.request(fill(max_steps=1))
        async with relay_to(worker.paths.socket) as relay:
            client = await RawClient.start(relay.folder, PATIENT)
            yield relay, client
            assert await client.quit() == 0


@pytest.fixture
def relay(relayed: tuple[Relay, RawClient]) -> Relay:
    relayed[0].requests.clear()
    return relayed[0]


@pytest.fixture
def client(relayed: tuple[Relay, RawClient]) -> RawClient:
    return relayed[1]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (".env", ".ssh/config", ".aws/sso/cache", "id_rsa", "main.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(MARKED)
    for name, target in {
        "innocent.py": ".env",
        "sshlink": ".ssh",
        "awslink": ".aws/sso",
        "second.py": "innocent.py",
        "absolute.py": str(tmp_path / "id_rsa"),
        "dangling.py": ".env.production",
        "passing.py": "db.pem",
        "db.pem": "main.py",
        "harmless.py": "main.py",
    }.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


async def actions(user: User) -> list[Any]:
    return await user.actions((0, 9), only="refactor.rewrite.infill.fillHole")


async def why_not_filled(user: User) -> str:
    return str((await user.fill("fillFile", *EVERYWHERE))["reason"])


@pytest.mark.parametrize(
    "name",
    [
        *("innocent.py", "sshlink/config", "second.py", "absolute.py", "dangling.py", "passing.py"),
        "awslink/../notes.py",
    ],
)
async def test_a_link_to_a_secret_reaches_no_worker(client: RawClient, relay: Relay, home: Path, name: str) -> None:
    user = User(client, MARKED, uri=f"{home.as_uri()}/{name}")
    offered = await actions(user)  # which may come before it is known where the link leads
    at_once = user.ask(invoked=True)
    for number, action in enumerate(offered):
        client.request(f"{user.uri} {number}", "codeAction/resolve", action)
    assert await user.items(at_once) == []
    for number in range(len(offered)):
        assert "may hold secrets" in (await client.reply(f"{user.uri} {number}"))["error"]["message"]
    assert "may hold secrets" in await why_not_filled(user)
    status = await client.status(user.uri)
    assert ("may hold secrets" in status["off"], status["sha256"], status["version"]) == (True, None, None)
    assert await actions(user) == await user.complete() == []
    assert relay.requests == []


async def test_settings_of_a_subfolder_hide_its_files(client: RawClient, relay: Relay, tmp_path: Path) -> None:
    """Also under the name of a link, and in the cells of a notebook."""
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "infill-ls.toml").write_text('secretGlobs = ["hidden*"]\n')
    for name in ("hidden.py", "hidden.ipynb", "open.py"):
        (sub / name).touch()
    (tmp_path / "link.py").symlink_to("sub/hidden.py")
    event = {"added": [{"uri": tmp_path.as_uri(), "name": "p"}], "removed": []}
    client.send({"method": "workspace/didChangeWorkspaceFolders", "params": {"event": event}})
    diff, cell = f"git:{sub}/hidden.py?ref=HEAD", "vscode-notebook-cell:/hidden.ipynb#1"
    notebook = {"uri": (sub / "hidden.ipynb").as_uri(), "notebookType": "x", "version": 1}
    notebook["cells"] = [{"kind": 2, "document": cell}]  # which is opened later
    params = {"notebookDocument": notebook, "cellTextDocuments": []}
    client.send({"method": "notebookDocument/didOpen", "params": params})
    for uri in ((sub / "hidden.py").as_uri(), (tmp_path / "link.py").as_uri(), diff, cell):
        assert await User(client, MARKED, uri=uri).complete() == []
        assert "may hold secrets" in (await client.status(uri))["off"]
    assert relay.requests == []
    user = User(client, MARKED, uri=(sub / "open.py").as_uri())
    await user.complete()
    assert len(relay.requests) == 1
    (sub / "infill-ls.toml").write_text('secretGlobs = ["hidden*", "open.py"]\n')
    assert "may hold secrets" in await why_not_filled(user)
    assert await user.complete() == []
    assert len(relay.requests) == 1


async def test_a_link_changed_while_it_is_open_leaks_nothing(client: RawClient, relay: Relay, home: Path) -> None:
    link = home / "harmless.py"
    user = User(client, MARKED, uri=link.as_uri())
    await user.complete()
    assert len(relay.requests) == 1
    link.unlink()
    link.symlink_to(".env")
    user.retype("KEY = ???\n")
    user.cursor = user.text.index("???")
    assert await user.complete() == []
    assert "may hold secrets" in await why_not_filled(user)
    assert len(relay.requests) == 1
    link.unlink()
    link.symlink_to("main.py")
    await User(client, MARKED, uri=user.uri).complete()
    assert len(relay.requests) == 2


async def test_dead_and_circular_links_are_ordinary_documents(client: RawClient, relay: Relay, home: Path) -> None:
    (home / "loop.py").symlink_to("loop.py")
    (home / "to.py").symlink_to("fro.py")
    (home / "fro.py").symlink_to("to.py")
    (home / "nowhere.py").symlink_to("not/there.py")
    names = ("loop.py", "to.py", "nowhere.py", "not/saved/yet.py", "harmless.py", "main.py/below.py")
    for number, uri in enumerate([f"{home.as_uri()}/{name}" for name in names] + ["untitled:Untitled-1"]):
        await User(client, MARKED, uri=uri).complete()
        assert (await client.status(uri))["off"] is None
        assert len(relay.requests) == number + 1


async def test_of_many_documents_opened_at_once_each_is_filled(client: RawClient, relay: Relay, home: Path) -> None:
    users = [User(client, MARKED, uri=f"{home.as_uri()}/{number}.py") for number in range(300)]
    for user in users[-3:]:
        await poll(lambda uri=user.uri: client.status(uri), lambda status: status["off"] is None)
        await user.complete()
    assert len(relay.requests) == 3


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount a file system in a namespace")
async def test_a_file_system_that_does_not_answer_stops_nobody(relay: Relay, home: Path) -> None:
    dead = home / "dead"
    dead.mkdir()
    (home / "to_dead.py").symlink_to("dead/deep/a.py")
    command = ["unshare", "-Urm", sys.executable, "-m", "tests.e2e.dead_mount", str(dead), *SERVER]
    client = await RawClient.start(relay.folder, PATIENT, command=command)
    gone = [User(client, MARKED, uri=f"{home.as_uri()}/{name}") for name in ("dead/b.py", "to_dead.py")]
    asked = [user.ask(invoked=True) for user in gone]
    alive = User(client, MARKED, uri=(home / "main.py").as_uri())
    await alive.complete()
    assert (await client.status(alive.uri))["off"] is None
    for user, key in zip(gone, asked, strict=True):
        assert await user.items(key) == []
        assert "does not answer" in await why_not_filled(user)
        assert "does not answer" in (await client.status(user.uri))["off"]
    assert len(relay.requests) == 1
    assert await client.quit() == 0
    assert os.listdir(dead) == []  # noqa: PTH208 - the mount was the server's alone

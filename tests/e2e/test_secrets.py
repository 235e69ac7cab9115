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
from tests.e2e.raw_client import EVERYWHERE, SERVER, RawClient, between
from tests.e2e.relay import Relay, relay_to
from tests.e2e.test_notebook import item, open_notebook
from tests.workers import fill

MARKED = "total = ???\n"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def relayed(runtime_folder: Path) -> AsyncIterator[tuple[Relay, RawClient]]:
    """A client behind a relay. Another client keeps the worker from ending because nobody asks it."""
    async with WorkerClient(WorkerOptions(), name="tests") as worker:
        await worker.ask(fill(max_steps=1))
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


async def actions(client: RawClient, uri: str) -> Any:
    return await client.actions(uri, (0, 9), only="refactor.rewrite.infill.fillHole")


async def filled(client: RawClient, uri: str) -> Any:
    return await client.command("fillFile", {"uri": uri, "range": between(*EVERYWHERE)})


async def suggested(client: RawClient, uri: str) -> list[Any]:
    key = f"inline in {uri} {len(client.replies)}"
    client.complete(key, uri, 0, 8, invoked=True)
    return list((await client.reply(key))["result"]["items"])


@pytest.mark.parametrize(
    "name",
    [
        *("innocent.py", "sshlink/config", "second.py", "absolute.py", "dangling.py", "passing.py"),
        "awslink/../notes.py",
    ],
)
async def test_a_link_to_a_secret_reaches_no_worker(client: RawClient, relay: Relay, home: Path, name: str) -> None:
    uri = f"{home.as_uri()}/{name}"
    client.open(uri, MARKED)
    offered = await actions(client, uri)  # which may come before it is known where the link leads
    client.complete(f"{uri} at once", uri, 0, 8, invoked=True)
    for number, action in enumerate(offered):
        client.request(f"{uri} {number}", "codeAction/resolve", action)
    assert (await client.reply(f"{uri} at once"))["result"]["items"] == []
    for number in range(len(offered)):
        assert "may hold secrets" in (await client.reply(f"{uri} {number}"))["error"]["message"]
    assert "may hold secrets" in (await filled(client, uri))["reason"]
    status = await client.status(uri)
    assert ("may hold secrets" in status["off"], status["sha256"], status["version"]) == (True, None, None)
    assert await actions(client, uri) == await suggested(client, uri) == []
    assert relay.requests == []


async def test_settings_of_a_subfolder_hide_its_files(client: RawClient, relay: Relay, tmp_path: Path) -> None:
    """Also under the name of a link, and in the cells of a notebook."""
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "infill-ls.toml").write_text('secretGlobs = ["hidden*"]\n')
    for name in ("hidden.py", "hidden.ipynb", "open.py"):
        (sub / name).write_text(MARKED)
    (tmp_path / "link.py").symlink_to("sub/hidden.py")
    event = {"added": [{"uri": tmp_path.as_uri(), "name": "p"}], "removed": []}
    client.send({"method": "workspace/didChangeWorkspaceFolders", "params": {"event": event}})
    cell = "vscode-notebook-cell:/hidden.ipynb#1"
    open_notebook(client, (sub / "hidden.ipynb").as_uri(), item(cell, MARKED))
    diff = f"git:{sub}/hidden.py?ref=HEAD"
    for uri in ((sub / "hidden.py").as_uri(), (tmp_path / "link.py").as_uri(), diff, cell):
        if uri != cell:
            client.open(uri, MARKED)
        assert await suggested(client, uri) == []
        assert "may hold secrets" in (await client.status(uri))["off"]
    assert relay.requests == []
    client.open((sub / "open.py").as_uri(), MARKED)
    await suggested(client, (sub / "open.py").as_uri())
    assert len(relay.requests) == 1
    (sub / "infill-ls.toml").write_text('secretGlobs = ["hidden*", "open.py"]\n')
    assert "may hold secrets" in (await filled(client, (sub / "open.py").as_uri()))["reason"]
    assert await suggested(client, (sub / "open.py").as_uri()) == []
    assert len(relay.requests) == 1


async def test_a_cell_of_a_linked_notebook_gets_nothing(client: RawClient, relay: Relay, home: Path) -> None:
    notebook, cell = f"{home.as_uri()}/sshlink/n.ipynb", "vscode-notebook-cell:/n.ipynb#1"
    open_notebook(client, notebook, item(cell, MARKED))
    assert await suggested(client, cell) == []
    assert "may hold secrets" in (await client.status(cell))["off"]
    assert relay.requests == []


async def test_a_link_changed_while_it_is_open_leaks_nothing(client: RawClient, relay: Relay, home: Path) -> None:
    link = home / "harmless.py"
    client.open(link.as_uri(), MARKED)
    await suggested(client, link.as_uri())
    assert len(relay.requests) == 1
    link.unlink()
    link.symlink_to(".env")
    change = {"textDocument": {"uri": link.as_uri(), "version": 2}, "contentChanges": [{"text": f"KEY = 1\n{MARKED}"}]}
    client.send({"method": "textDocument/didChange", "params": change})
    assert await suggested(client, link.as_uri()) == []
    assert "may hold secrets" in (await filled(client, link.as_uri()))["reason"]
    assert len(relay.requests) == 1
    link.unlink()
    link.symlink_to("main.py")
    client.open(link.as_uri(), MARKED)
    await suggested(client, link.as_uri())
    assert len(relay.requests) == 2


async def test_dead_and_circular_links_are_ordinary_documents(client: RawClient, relay: Relay, home: Path) -> None:
    (home / "loop.py").symlink_to("loop.py")
    (home / "to.py").symlink_to("fro.py")
    (home / "fro.py").symlink_to("to.py")
    (home / "nowhere.py").symlink_to("not/there.py")
    names = ("loop.py", "to.py", "nowhere.py", "not/saved/yet.py", "harmless.py", "main.py/below.py")
    for number, uri in enumerate([f"{home.as_uri()}/{name}" for name in names] + ["untitled:Untitled-1"]):
        client.open(uri, MARKED)
        await suggested(client, uri)
        assert (await client.status(uri))["off"] is None
        assert len(relay.requests) == number + 1


async def test_of_many_documents_opened_at_once_each_is_filled(client: RawClient, relay: Relay, home: Path) -> None:
    uris = [f"{home.as_uri()}/{number}.py" for number in range(300)]
    for uri in uris:
        client.open(uri, MARKED)
    for uri in uris[-3:]:
        await suggested(client, uri)
    assert len(relay.requests) == 3


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount a file system in a namespace")
async def test_a_file_system_that_does_not_answer_stops_nobody(relay: Relay, home: Path) -> None:
    dead = home / "dead"
    dead.mkdir()
    (home / "to_dead.py").symlink_to("dead/deep/a.py")
    command = ["unshare", "-Urm", sys.executable, "-m", "tests.e2e.dead_mount", str(dead), *SERVER]
    client = await RawClient.start(relay.folder, PATIENT, command=command)
    gone = [f"{home.as_uri()}/{name}" for name in ("dead/b.py", "to_dead.py")]
    for uri in gone:
        client.open(uri, MARKED)
        client.complete(uri, uri, 0, 8, invoked=True)
    alive = (home / "main.py").as_uri()
    client.open(alive, MARKED)
    await suggested(client, alive)
    assert (await client.status(alive))["off"] is None
    for uri in gone:
        assert (await client.reply(uri))["result"]["items"] == []
        assert "does not answer" in (await filled(client, uri))["reason"]
        assert "does not answer" in (await client.status(uri))["off"]
    assert len(relay.requests) == 1
    assert await client.quit() == 0
    assert os.listdir(dead) == []  # noqa: PTH208 - the mount was the server's alone

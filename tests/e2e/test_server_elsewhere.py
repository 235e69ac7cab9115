"""A model on a remote server, from an editor and a terminal: what is sent there and what is not, and how the user
learns where text goes and that the server fails.

The server is real and records, but fills nothing; the language server and the worker are the real ones.
"""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tokenizers import Tokenizer

from tests.canvas_server import CanvasServer, recording_server
from tests.e2e.conftest import alone
from tests.e2e.raw_client import SERVER, RawClient
from tests.e2e.user import User
from tests.inference.loaded import TWIN
from tests.workers import Finished, checks_of, infill_ls, poll, until

TOKEN = "hush-hush-0123456789"
SECRET = "swordfish"
HELPERS = "def load_helper(path, strict):\n    return path\n"
DOCUMENT = "from helpers import load_helper\n\nx = load_helper(‸\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "helpers.py").write_text(HELPERS)
    (folder / ".env").write_text(f"load_helper = '{SECRET}'\n")
    (folder / "credentials.json").write_text(f'{{"load_helper": "{SECRET}"}}\n')
    (folder / "linked.py").symlink_to(".env")
    (folder / "main.py").write_text(DOCUMENT.replace("‸", ""))
    return folder


def edited(project: Path, options: dict[str, Any], stderr: Path, **variables: str) -> Any:
    """A language server that logs all it can to a file, alone in its runtime folder."""
    command = ["sh", "-c", f'exec "$@" 2>{stderr}', "sh", *SERVER, "--log-level", "debug"]
    return alone(options, folders=[project], command=command, **variables)


def opened(client: RawClient, project: Path, text: str, name: str = "main.py") -> User:
    return User(client, text, uri=(project / name).as_uri())


def fills(server: CanvasServer) -> list[dict[str, Any]]:
    """What it was asked, but for what found out how wide its canvas is."""
    return [body for body in server.asked if len(body["prompt"]) > 1]


def read(body: dict[str, Any]) -> str:
    """The text of what was sent to be filled: its prompt and its canvas."""
    tokenizer = Tokenizer.from_file(str(TWIN / "tokenizer.json"))
    ids = [*body["prompt"], *body["vllm_xargs"]["diffusion_seed_canvas"]]
    return str(tokenizer.decode(ids, skip_special_tokens=False))


async def test_only_text_is_sent_and_only_the_server_sees_the_token(project: Path, tmp_path: Path) -> None:
    async with recording_server() as server:
        server.token = TOKEN
        variables = {"INFILL_LS_SERVER_TOKEN": TOKEN}
        stderr = tmp_path / "stderr"
        options = {"model": server.url, "server": {"tokenizer": str(TWIN)}, "idleSeconds": 30}
        options["deadlineMs"] = {"automatic": 60_000, "invoked": 60_000}
        async with edited(project, options, stderr, **variables) as client:
            for name in (".env", "credentials.json", "linked.py"):
                secret = opened(client, project, (project / name).read_text().replace("\n", "‸\n"), name)
                assert await secret.complete() == []
            opened(client, project, HELPERS, "helpers.py")
            user = opened(client, project, DOCUMENT)
            for old, new in ("xx", "xy", "yz"):
                user.exchange(f"{old} = ", f"{new} = ")
                user.cursor = len(user.text) - 1
                assert await user.complete() == []
            status = await client.status(user.uri)
            shown = await until(lambda: client.shown)  # the status that carries it may come behind the reply
            server.token = "another"
            user.exchange("z = ", "w = ")
            user.cursor = len(user.text) - 1
            assert await user.complete() == []
            refused = await until(lambda: client.shown[len(shown) :])
            processes = psutil.process_iter(["cmdline"])
            commands = [" ".join(process.info["cmdline"] or []) for process in processes]
            logs = [stderr.read_text(), *(file.read_text() for file in client.runtime.glob("*.log"))]
        sent = "\n".join(map(read, fills(server)))
        assert "x = load_helper" in sent and "def load_helper(path, strict):" in sent and "File helpers.py" in sent
        assert SECRET not in sent and not any(SECRET in asked.content.decode() for asked in server.requests)
        assert str(project) not in sent and str(Path.home()) not in sent
        assert {asked.headers["authorization"] for asked in server.requests} == {f"Bearer {TOKEN}"}
        known = {"host", "accept", "accept-encoding", "connection", "user-agent", "authorization", "x-session-id"}
        known |= {"content-type", "content-length", "transfer-encoding"}
        assert {name for asked in server.requests for name in asked.headers} <= known
        assert len(logs) == 2 and all(logs)
        assert not [text for text in (*logs, *commands, str(status), *shown) if TOKEN in text]
        (told,) = shown  # once, though each fill failed
        assert "this server only records" in told
        assert len(refused) == 1 and "refused the token" in refused[0], "another kind of failure is news"
        assert status["server"] == server.url and status["serverProblem"] in told
        about = tuple(status[name] for name in ("state", "model", "device"))
        assert about == ("ready", "gemma", server.url.removeprefix("http://"))


async def test_a_workspace_that_is_not_trusted_sends_nothing_anywhere(project: Path, tmp_path: Path) -> None:
    """Neither by its file nor by later settings."""
    async with recording_server() as server:
        theirs = {"model": server.url, "server": {"tokenizer": str(TWIN), "plainHttp": True}}
        lines = f'model = "{server.url}"\nserver = {{ tokenizer = "{TWIN}", plainHttp = true }}\n'
        (project / "infill-ls.toml").write_text(lines)
        async with edited(project, {}, tmp_path / "stderr") as client:
            user = opened(client, project, DOCUMENT)
            status = await poll(lambda: client.status(user.uri), lambda status: len(status["problems"]) >= 2)
            assert all("is ignored" in problem for problem in status["problems"])
            (project / "infill-ls.toml").unlink()
            client.send({"method": "workspace/didChangeConfiguration", "params": {"settings": theirs}})
            await opened(client, project, DOCUMENT, "other.py").complete()
            status = await client.status(user.uri)
        assert status["model"] == "embedded" and status["server"] == ""
        assert server.requests == []


def run(folder: Path, *words: object, **variables: str) -> Awaitable[Finished]:
    """A command, in a runtime and a configuration folder of the test."""
    own = {"folder": folder / "run", "XDG_CONFIG_HOME": str(folder)}
    return asyncio.to_thread(infill_ls, *words, **own, **variables)


async def test_doctor_looks_at_the_server(tmp_path: Path) -> None:
    async with recording_server() as server:
        server.token = TOKEN
        (tmp_path / "infill-ls").mkdir()
        file = tmp_path / "infill-ls" / "server-token"
        file.write_text(f"{TOKEN}\n")
        file.chmod(0o600)
        chosen = ("--model", server.url, "--server-tokenizer", str(TWIN))
        profile = {"PYTHONPROFILEIMPORTTIME": "1"}
        found = await run(tmp_path, "doctor", *chosen, "--json", **profile)
        about = checks_of(found)
        assert about["text goes to"]["found"] == f"{server.url}, on this machine"
        assert about["server"]["verdict"] == "ok" and "gemma on " in about["server"]["found"]
        assert about["server token"]["found"] == f"from {file}"
        assert not {"torch", "device", "best model here", "runs embedded"} & about.keys()
        names = (
            line.rpartition("|")[2].strip() for line in found.stderr.splitlines() if line.startswith("import time:")
        )
        assert not {"torch", "transformers"} & {name.partition(".")[0] for name in names}
        assert not fills(server) and TOKEN not in found.stdout + found.stderr
        file.chmod(0o644)
        server_check = checks_of(await run(tmp_path, "doctor", *chosen, "--json"))["server"]
        assert server_check["verdict"] == "fail" and server_check["advice"] == f"run: chmod 600 {file}"


async def test_status_says_where_text_goes(tmp_path: Path) -> None:
    async with recording_server() as server:
        chosen = ("--model", server.url, "--server-tokenizer", str(TWIN), "--idle-s", "30")
        (tmp_path / "run").mkdir(mode=0o700)
        try:
            started = await run(tmp_path, "worker", *chosen)
            assert f"text goes to {server.url}, which has answered for" in started.stdout, started.stderr
            (tmp_path / "a.py").write_text("x = ???\n")
            filled = await run(tmp_path, "fill", tmp_path / "a.py", *chosen[:4])
            assert (filled.returncode, filled.stdout) == (1, "") and "this server only records" in filled.stderr
            shown = await run(tmp_path, "status")
            assert f"text goes to {server.url}, which fails: " in shown.stdout
        finally:
            await run(tmp_path, "worker", "--stop", *chosen[:4])

"""`infill-ls models pull`, from a real hub on this machine: fetches, checks, resumes and refuses."""

import hashlib
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from inference.models import catalogue, registry
from inference.models.family import ModelError
from tests.hub_server import LARGE, REVISION, Hub, hub_of
from tests.inference.models import random_masked
from tests.served.to_gguf import main as as_gguf
from tests.workers import PATIENCE_S

TWIN = Path(__file__).parents[2] / "data" / "twin"
FIM = Path(__file__).parents[2] / "data" / "fim"
NAME, REPO = "open-dcoder-0.5b", "fredzzp/open-dcoder-0.5B"
WEIGHTS = f"model{LARGE}"
COMMAND = [sys.executable, "-m", "lsp_server.cli"]

Pull = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub with a small real checkpoint, and code that is not wanted, under a name of the catalogue."""
    files = tmp_path / "on-the-hub"
    shutil.copytree(TWIN, files)
    (files / "modeling_evil.py").write_text("raise SystemExit\n")
    (files / "pytorch_model.bin").write_bytes(b"pickle")
    with hub_of(REPO, files) as served:
        yield served


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def pull(hub: Hub, home: Path) -> Pull:
    def run(*words: str, status: int = 0, at: Hub = hub, **more: Any) -> "subprocess.CompletedProcess[str]":
        options = {"HF_ENDPOINT": at.url, "HF_HOME": str(home), **more}
        done = run_cli("models", "pull", *(words or (NAME,)), **options)
        assert done.returncode == status, done.stderr + done.stdout
        return done

    return run


def run_cli(
    *words: str, stdin: int = subprocess.DEVNULL, before: Callable[[], None] | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Runs `infill-ls` with more variables in its environment; `before`: what its process does first."""
    more = {"stdin": stdin, "env": {**os.environ, "HF_HUB_OFFLINE": "0", **variables}, "preexec_fn": before}
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE_S, **more)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_pull_ends_with_its_command(home: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        everything = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
        with subprocess.Popen([*COMMAND, "models", "pull", NAME], env=everything) as command:
            silent.settimeout(PATIENCE_S)
            asking, _ = silent.accept()
            command.send_signal(number)
            asking.settimeout(PATIENCE_S)
            while asking.recv(4096):
                pass
    assert command.returncode != 0


def folder_in(home: Path, name: str = NAME) -> Path:
    return home / "infill-ls" / name


def fetched(hub: Hub) -> list[str]:
    """The files that were asked for, with their ranges."""
    return [request.rpartition("/")[2] for request in hub.requests if "/resolve/" in request]


def test_a_model_is_pulled_checked_and_its_revision_written_down(hub: Hub, home: Path, pull: Pull) -> None:
    said = pull().stdout
    about = ("licence   apache-2.0", f"revision  {REVISION}", "files     5, 9 MB")
    for words in (*about, str(folder_in(home)), f"--model {NAME}"):
        assert words in said
    wanted = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS}
    assert set(fetched(hub)) == wanted
    assert all(f"/resolve/{REVISION}/" in request for request in hub.requests if "/resolve/" in request)
    for name in wanted:
        assert (folder_in(home) / name).read_bytes() == (TWIN / name).read_bytes()
    record = json.loads((folder_in(home) / "pulled.json").read_bytes())
    assert (record["repo"], record["revision"], record["complete"]) == (REPO, REVISION, True)


def test_a_pulled_model_is_known_by_its_name_and_its_hub_id(
    home: Path, pull: Pull, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pull()
    (tmp_path / "checkout" / NAME).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "checkout")  # a folder of a checkout must not take the name's place
    assert names_found(home, NAME, NAME.upper(), REPO) == [str(folder_in(home))] * 3


def names_found(home: Path, *names: str) -> list[str]:
    """The folders that a process without a network finds for these names, or what it says instead."""
    program = (
        "import sys\n"
        "from inference.models import registry\n"
        "from inference.models.family import ModelError\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        print(registry.open_checkpoint(name).folder)\n"
        "    except ModelError as error:\n"
        "        print(error)\n"
    )
    environment = {**os.environ, "HF_HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program, *names]
    return subprocess.check_output(command, text=True, env=environment).splitlines()


def test_a_transfer_that_broke_off_goes_on_where_it_was(hub: Hub, home: Path, pull: Pull) -> None:
    hub.cut_at, hub.after_cut = 3_000_000, ((WEIGHTS, HTTPStatus.SERVICE_UNAVAILABLE, ""),)
    assert "the next try resumes there" in pull(status=1).stderr
    here = (folder_in(home) / f"{WEIGHTS}.part").stat().st_size
    assert 0 < here <= 3_000_000
    assert "only partly downloaded" in names_found(home, NAME)[0]
    hub.requests.clear()
    hub.newest = "f" * 40
    pull()
    assert hub.requests == [f"/{REPO}/resolve/{REVISION}/{WEIGHTS} bytes={here}-"], "of the revision that was begun"


def test_another_answer_leaves_what_is_here(hub: Hub, pull: Pull) -> None:
    """Such as the page of a network that wants a login first."""
    hub.cut_at, hub.after_cut = 3_000_000, ((WEIGHTS, HTTPStatus.OK, ""),)
    pull()
    assert re.search(r" bytes=[1-9]\d+-$", hub.requests[-1])


def test_redirected_host_gets_no_token(hub: Hub, pull: Pull) -> None:
    with hub_of(REPO, hub.folder) as mirror:
        hub.redirect_to = mirror.url
        pull(HF_TOKEN="hf_very_secret")
    assert fetched(mirror)
    assert set(mirror.tokens) == {""}


def test_nothing_is_fetched_twice(hub: Hub, home: Path, pull: Pull) -> None:
    pull()
    hub.requests.clear()
    assert "each file checked" in pull().stdout
    assert hub.requests == []
    with (folder_in(home) / WEIGHTS).open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\xff")
    pull()
    assert fetched(hub) == [WEIGHTS]


def test_without_a_terminal_lines_say_how_far_it_is(hub: Hub, pull: Pull) -> None:
    hub.pause_s = 4.5
    assert re.search(r"^  [1-9] of 9 MB$", pull().stdout, re.MULTILINE)


@pytest.mark.parametrize("left", [None, 5000])
def test_weights_that_are_gone_or_cut_off_are_pulled_again(hub: Hub, home: Path, pull: Pull, left: int | None) -> None:
    pull()
    weights = folder_in(home) / WEIGHTS
    weights.unlink() if left is None else os.truncate(weights, left)
    (found,) = names_found(home, NAME)
    assert f"{weights} is missing or cut off" in found and f"run: infill-ls models pull {NAME}" in found
    hub.requests.clear()
    pull()
    assert fetched(hub) == [WEIGHTS]
    assert names_found(home, NAME) == [str(folder_in(home))]


def test_a_file_of_another_release_s_pin_is_here(home: Path) -> None:
    """The record of the pull says what belongs there, not the pin of today."""
    folder = folder_in(home, CODER)
    folder.mkdir(parents=True)
    content, entry = b"GGUF", catalogue.entry_named(CODER)
    assert entry.file
    (folder / entry.file.name).write_bytes(content)
    file = {"size": len(content), "digest": hashlib.sha256(content).hexdigest()}
    record = {"repo": entry.repo, "revision": "0" * 40, "licence": "apache-2.0", "complete": True}
    (folder / "pulled.json").write_text(json.dumps({**record, "files": {entry.file.name: file}}))
    (found,) = names_found(home, CODER)
    assert "is damaged or no model" in found, "it is read, as what this test has put there"


def test_a_file_that_is_not_what_the_hub_promised_is_not_kept(hub: Hub, home: Path, pull: Pull) -> None:
    for damaged in (WEIGHTS, "config.json"):  # known by SHA-256, and by git's hash
        hub.damaged = damaged
        assert f"{damaged} is not what the hub promised" in pull(status=1).stderr
        assert not (folder_in(home) / damaged).exists()
        assert not (folder_in(home) / f"{damaged}.part").exists()
        shutil.rmtree(home)
    hub.damaged = ""
    pull()


def test_unsafe_file_names_are_not_fetched(hub: Hub, home: Path, pull: Pull) -> None:
    hub.also = ("../evil.json", "sub/evil.json", ".hidden.json", "pulled.json", "Pulled.json", "a\\b.json", "x.json\n")
    hub.also += ("a" * 300 + ".json",)
    pull()
    odd = ("evil", "pulled", "hidden", "x.json")
    assert not [name for name in fetched(hub) if any(part in name.lower() for part in odd)]
    assert not (home / "infill-ls" / "evil.json").exists()


@pytest.mark.parametrize("name", ["../evil.json", "pulled.json"])
def test_a_record_that_came_with_the_files_leads_nowhere_else(hub: Hub, home: Path, pull: Pull, name: str) -> None:
    record = {"repo": REPO, "revision": REVISION, "licence": "mit", "files": {name: {"size": 1, "digest": "0" * 40}}}
    folder_in(home).mkdir(parents=True)
    (folder_in(home) / "pulled.json").write_text(json.dumps(record))
    assert "is not a file of a model" in pull(status=1).stderr
    assert hub.requests == []


def test_short_answer_is_not_retried_forever(hub: Hub, pull: Pull) -> None:
    hub.claims = {WEIGHTS: (TWIN / WEIGHTS).stat().st_size + 1}
    assert f"{WEIGHTS} is not what the hub promised" in pull(status=1).stderr
    assert len(fetched(hub)) < 20


def test_a_licence_that_is_not_stated_is_to_be_accepted(hub: Hub, home: Path, pull: Pull) -> None:
    hub.licence = None
    refused = pull(status=1)
    assert "licence   not stated" in refused.stdout
    assert "--accept-licence" in refused.stderr
    assert fetched(hub) == []
    pull(NAME, "--accept-licence")
    assert (folder_in(home) / WEIGHTS).exists()


@pytest.mark.parametrize(("answer", "status"), [("no", 1), ("yes", 0)])
def test_on_a_terminal_a_licence_is_asked_for(hub: Hub, pull: Pull, answer: str, status: int) -> None:
    hub.licence = "apple-amlr"
    keyboard, terminal = pty.openpty()
    os.write(keyboard, f"{answer}\n".encode())
    assert "Do you accept the licence (apple-amlr)?" in pull(status=status, stdin=terminal).stdout
    os.close(keyboard)
    os.close(terminal)
    assert bool(fetched(hub)) == (answer == "yes")


REFUSALS = {
    "gated": (HTTPStatus.FORBIDDEN, "GatedRepo", f"log in at {{hub}}/{REPO}, accept it"),
    "unknown": (HTTPStatus.UNAUTHORIZED, "RepoNotFound", f"the hub knows no model {REPO}"),
    "down": (HTTPStatus.BAD_GATEWAY, "", "the hub refuses (502"),
}


@pytest.mark.parametrize(("status", "code", "said"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_what_to_do(hub: Hub, home: Path, pull: Pull, status: HTTPStatus, code: str, said: str) -> None:
    hub.statuses = [("/api/models/", status, code)] * 9
    error = pull(status=1, HF_TOKEN="hf_very_secret").stderr
    told = (said.replace("{hub}", hub.url), f"{hub.url}/{REPO}/tree/main", "*.safetensors")
    for words in (*told, str(folder_in(home)), f"--model {NAME}"):
        assert words in error
    assert "secret" not in error
    assert "Bearer hf_very_secret" in hub.tokens


def test_without_a_network_files_may_be_put_there_by_hand(home: Path, pull: Pull) -> None:
    error = pull(status=1, HF_ENDPOINT="http://127.0.0.1:9").stderr
    assert f"put them into {folder_in(home)}" in error and "Traceback" not in error
    shutil.copytree(TWIN, folder_in(home), dirs_exist_ok=True)
    assert names_found(home, NAME) == [str(folder_in(home))]


def test_files_placed_by_hand_are_checked_offline(hub: Hub, home: Path, pull: Pull) -> None:
    hub.statuses = [("/resolve/", HTTPStatus.FORBIDDEN, "GatedRepo")]
    error = pull(status=1).stderr
    assert "accept it" in error
    assert "and try again, which checks them without a network" in error
    shutil.copytree(TWIN, folder_in(home), dirs_exist_ok=True)
    hub.requests.clear()
    pull()
    assert hub.requests == []


def test_small_and_full_disks_are_reported(hub: Hub, home: Path, pull: Pull) -> None:
    hub.claims = {WEIGHTS: 10**15}
    assert "the disk is too full: 1000000.0 GB are needed" in pull(status=1).stderr
    assert fetched(hub) == []
    shutil.rmtree(home)
    hub.claims = {}
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (4_000_000, 4_000_000))
    assert "File too large; make room, or set HF_HOME" in pull(status=1, before=limit).stderr


@pytest.mark.parametrize("size", [-1, "5", True])
def test_a_size_that_no_file_has_is_one_clear_error(hub: Hub, home: Path, pull: Pull, size: float) -> None:
    hub.claims = {"config.json": size}
    error = pull(status=1).stderr
    assert "config.json" in error and "Traceback" not in error
    assert "000000000" not in error


@pytest.mark.parametrize(("field", "value"), [("size", -5), ("revision", "\x1b]0;x\x07"), ("", "{")])
def test_a_damaged_record_counts_as_nothing_pulled(hub: Hub, home: Path, pull: Pull, field: str, value: object) -> None:
    pull()
    file = folder_in(home) / "pulled.json"
    record = json.loads(file.read_bytes())
    (record if field == "revision" else record["files"]["config.json"])[field] = value
    file.write_text(json.dumps(record) if field else str(value))
    hub.newest = "f" * 40
    done = pull()
    assert done.stdout.count("pulled.json") == 1
    assert "\x1b" not in done.stdout + done.stderr
    assert json.loads(file.read_bytes())["revision"] == hub.newest
    assert "pulled.json" not in pull().stdout


ODD = {
    "licence": ({"licence": "evil\x1b]0;title\x07\x9b31m"}, "evil"),
    "revision": ({"newest": "../\x1b]0;x\x07"}, "names no revision"),
    "refusal": (
        {"reason_phrase": "Bad\x1b]0;title\x07", "statuses": [("/api/models/", HTTPStatus.BAD_GATEWAY, "")] * 9},
        "the hub refuses (502 Bad",
    ),
}


@pytest.mark.parametrize(("said", "shown"), ODD.values(), ids=ODD)
def test_a_hub_sends_the_terminal_no_controls(
    hub: Hub, home: Path, pull: Pull, said: dict[str, Any], shown: str
) -> None:
    vars(hub).update(said)
    done = pull(status=1)
    assert shown in done.stderr
    assert not any(code in done.stdout + done.stderr for code in "\x1b\x07\x9b")
    assert not (folder_in(home) / "pulled.json").exists()


def test_a_planted_link_is_not_written_through(hub: Hub, home: Path, pull: Pull, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    for name in (f"{WEIGHTS}.part", "pulled.json.new", "config.json"):
        shutil.rmtree(home, ignore_errors=True)
        folder_in(home).mkdir(parents=True)
        (folder_in(home) / name).symlink_to(victim)
        pull(status=1 if name.endswith(".part") else 0)
        assert victim.read_text() == "keep me", name


def test_a_planted_pipe_or_second_name_is_not_written_into(hub: Hub, home: Path, pull: Pull, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    folder_in(home).mkdir(parents=True)
    (folder_in(home) / f"{WEIGHTS}.part").hardlink_to(victim)
    os.mkfifo(folder_in(home) / "config.json.part")
    os.mkfifo(folder_in(home) / "tokenizer.json")
    pull()
    assert victim.read_text() == "keep me"


@pytest.mark.parametrize("depth", [0, 1], ids=["the model's", "all models'"])
def test_a_linked_folder_is_not_written_into(hub: Hub, home: Path, pull: Pull, tmp_path: Path, depth: int) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = (folder_in(home), folder_in(home).parent)[depth]
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    assert "is a link" in pull(status=1).stderr
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_users_own_linked_home_works(hub: Hub, home: Path, pull: Pull, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    home.symlink_to(tmp_path / "elsewhere")
    pull()


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9", "ftp://me:secret@127.0.0.1", ""])
def test_an_endpoint_that_is_no_url_names_the_variable(pull: Pull, endpoint: str) -> None:
    error = pull(status=1, HF_ENDPOINT=endpoint).stderr
    assert "HF_ENDPOINT" in error and "secret" not in error
    assert error.count("\n") == 1


def test_by_hand_names_the_hub_that_was_asked(hub: Hub, home: Path, pull: Pull) -> None:
    hub.statuses = [("/api/models/", HTTPStatus.BAD_GATEWAY, "")] * 9
    error = pull(status=1, HF_ENDPOINT=hub.url.replace("//", "//me:secret@")).stderr
    assert f"{hub.url}/{REPO}/tree/main" in error and "secret" not in error
    assert "if its weights are a single *.gguf, that alone, and --model with its path" in error


def test_a_checkpoint_without_safetensors_is_refused(hub: Hub, pull: Pull) -> None:
    (hub.folder / WEIGHTS).unlink()
    assert "other weight formats can run code" in pull(status=1).stderr
    assert fetched(hub) == []


def test_a_lone_gguf_file_is_pulled(tmp_path: Path, home: Path, pull: Pull) -> None:
    (files := tmp_path / "files").mkdir()
    as_gguf(FIM, files / "sweep-next-edit-0.5b.q8_0.gguf")
    (files / "config.json").write_text("{}")
    (files / "LICENSE").write_text("Do what you like.")
    with hub_of("sweepai/sweep-next-edit-0.5B", files) as other:
        other.statuses = [("/resolve/", HTTPStatus.BAD_GATEWAY, "")]
        error = pull("sweep-next-edit-0.5b", at=other, status=1).stderr
        assert "download LICENSE, sweep-next-edit-0.5b.q8_0.gguf; put them into" in error
        assert "Next edits use it" in pull("sweep-next-edit-0.5b", at=other).stdout
        told = run_cli("doctor", "--model", "embedded", "--device", "cpu", HF_ENDPOINT=other.url, HF_HOME=str(home))
        taken = r"sweep-next-edit-0.5b(: it has no token <\|file_sep\|>| .* too slow to wait for)"  # if others compute
        assert re.search(taken, told.stdout), "auto has not looked at the pulled one"
        shutil.copy(files / "sweep-next-edit-0.5b.q8_0.gguf", files / "other.gguf")
        elsewhere = str(tmp_path / "elsewhere")
        assert "no single *.gguf" in pull("sweep-next-edit-0.5b", at=other, status=1, HF_HOME=elsewhere).stderr


def test_of_several_gguf_files_the_named_one_is_pulled(tmp_path: Path, home: Path, pull: Pull) -> None:
    """Its hash is the hub's, since the catalogue has none."""
    entry = catalogue.entry_named("diffusiongemma-26b-q4")
    (files := tmp_path / "files").mkdir()
    as_gguf(FIM, files / entry.file.name)
    for other in ("x-Q8_0.gguf", "config.json"):
        shutil.copy(files / entry.file.name, files / other)
    assert f"download {entry.file.name}; put it into" in pull(entry.name, status=1).stderr
    with hub_of(entry.repo, files) as served:
        pull(entry.name, at=served)
    assert fetched(served) == [entry.file.name]
    with hub_of(entry.repo, TWIN) as served:
        error = pull(entry.name, at=served, status=1, HF_HOME=str(tmp_path / "elsewhere")).stderr
    assert f"{entry.repo} has no {entry.file.name}; " in error
    (found,) = names_found(home, entry.name)
    assert found == str(folder_in(home, entry.name))
    (folder_in(home, entry.name) / "pulled.json").unlink()
    assert names_found(home, entry.name) == [found], "as put there by hand"


def test_unknown_model_name_lists_the_known_ones(hub: Hub, pull: Pull) -> None:
    for name in ("opendcoder", f"owner/{'a' * 300}"):
        error = pull(name, status=2).stderr
        assert "unknown model" in error and NAME in error and "Traceback" not in error
    assert "ships with infill-ls" in pull("embedded").stdout
    assert hub.requests == []


def test_model_outside_the_catalogue_is_pulled_by_hub_id(home: Path, pull: Pull) -> None:
    with hub_of("someone/a-model", TWIN) as other:
        pull("someone/a-model", at=other)
    assert names_found(home, "someone/a-model") == [str(folder_in(home, "someone--a-model"))]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, rf"infill-ls models pull {NAME} \(988 MB, licence: Apache-2.0\)") for name in (NAME, REPO)),
        ("google/no-such-checkpoint", "not on this machine.*infill-ls models pull google/no-such-checkpoint"),
        *((f"owner/{name}", "not on this machine") for name in ("a--b", "..", "a.git", "a" * 120)),
    ],
)
def test_a_missing_model_is_not_fetched_unasked(name: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        registry.open_checkpoint(name)


def test_cached_config_alone_is_no_model(home: Path) -> None:
    cached = home / "hub" / f"models--{REPO.replace('/', '--')}"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(REVISION)
    (cached / "snapshots" / REVISION).mkdir(parents=True)
    shutil.copy(TWIN / "config.json", cached / "snapshots" / REVISION)
    assert "infill-ls models pull" in names_found(home, NAME)[0]
    shutil.copytree(TWIN, cached / "snapshots" / REVISION, dirs_exist_ok=True)
    assert names_found(home, NAME) == [str(cached / "snapshots" / REVISION)]


def test_what_the_files_do_not_say_is_in_the_catalogue(tmp_path: Path, home: Path, pull: Pull) -> None:
    """Which row predicts which token: this checkpoint is in place, and its config.json looks like one that is not."""
    files = tmp_path / "mdlm"
    random_masked.save_open_dcoder(files, mask="<|mask|>")
    assert registry.open_checkpoint(str(files)).infill_config.shifted_logits
    with hub_of("dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1", files) as other:
        pull("qwen2.5-coder-0.5b-mdlm", at=other)
    folder = folder_in(home, "qwen2.5-coder-0.5b-mdlm")
    assert not registry.open_checkpoint(str(folder)).infill_config.shifted_logits
    (folder / "infill.json").write_text('{"corruption": "mask", "mask_token_id": 257, "shifted_logits": true}')
    assert registry.open_checkpoint(str(folder)).infill_config.shifted_logits, "a checkpoint's own word counts more"


def test_nothing_is_fetched_unasked_whatever_a_workspace_says(hub: Hub, home: Path, tmp_path: Path) -> None:
    variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home)}
    project = tmp_path / "project"
    project.mkdir()
    file = project / "a.py"
    file.write_text("x = ???\n")
    (project / "infill-ls.toml").write_text(f'model = "{REPO}"\nallowDownload = true\n')
    done = run_cli("fill", str(file), "--trust-workspace", **variables)
    assert done.returncode
    assert f"infill-ls models pull {NAME}" in done.stderr
    assert f"infill-ls models pull {NAME}" in run_cli("doctor", "--model", NAME, **variables).stdout
    assert hub.requests == []


def test_folder_of_another_model_is_not_reused(home: Path, pull: Pull) -> None:
    """By hand, or by an id that gives the same name of a folder."""
    pull()
    folder_in(home).rename(folder_in(home, "owner--name--x"))
    name = "owner--name/x"
    assert f"holds {REPO}, not {name}" in pull(name, status=1).stderr
    assert f"holds {REPO}, not {name}" in names_found(home, name)[0]


CODER = "qwen2.5-coder-0.5b"


def test_a_pinned_file_with_other_bytes_is_not_kept(tmp_path: Path, home: Path, pull: Pull) -> None:
    files = tmp_path / "other-bytes"
    files.mkdir()
    file = files / f"{CODER}-instruct-q4_k_m.gguf"
    file.touch()
    os.truncate(file, 491_400_064)
    with hub_of("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", files) as other:
        done = pull(CODER, at=other, status=1)
        assert [request for request in other.requests if "/api/" in request] == []
        assert f"/resolve/{catalogue.entry_named(CODER).file.revision}/" in other.requests[0]  # type: ignore[union-attr]
    assert "is not what the hub promised" in done.stderr
    assert not list(folder_in(home, CODER).glob("*.gguf*"))


def test_a_network_that_is_switched_off_is_named(home: Path, pull: Pull) -> None:
    error = pull(CODER, status=1, HF_HUB_OFFLINE="1").stderr
    assert "switched off by HF_HUB_OFFLINE" in error
    assert f"download {CODER}-instruct-q4_k_m.gguf; put it into {folder_in(home, CODER)}" in error


def test_a_licence_that_is_not_free_is_asked_for_before_a_byte(hub: Hub, pull: Pull) -> None:
    assert "Qwen Research: no commercial use" in pull("qwen2.5-coder-3b", status=1).stderr
    assert hub.requests == []

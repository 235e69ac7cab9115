"""Where a worker is to be found."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inference.models import catalogue, model_store
from inference.remote.file_privacy import folder_permission_problem
from lsp_server.settings.schema import NextEditSettings, ServerSettings, Settings
from lsp_server.settings.worker_options import edit_model_options, options_problem, worker_options
from lsp_server.worker import WorkerError, WorkerOptions
from lsp_server.worker.connect import ensure_private_folders, worker_command
from lsp_server.worker.paths import FOLDER_VARIABLE, MAX_SOCKET_PATH_BYTES, paths_of, socket_folders

URL = {"model": "http://h:1"}
ROOT = Path(__file__).parent.parent.parent.parent


def chosen(model: str, **more: Any) -> WorkerOptions:
    """The options of a worker whose model the user names so."""
    return worker_options(Settings(model=model, **more))


def test_other_installation_is_another_worker(tmp_path: Path) -> None:
    """Or the old code and the old checkpoint would go on answering after an upgrade."""
    for package in ("inference", "lsp_server"):
        ignored = shutil.ignore_patterns("embedded", "__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    sockets = [paths_of(WorkerOptions()).socket, socket_of(tmp_path)]
    weights = tmp_path / "inference" / "embedded" / "model.safetensors"
    weights.parent.mkdir()
    for content in (b"old", b"newer"):
        weights.write_bytes(content)
        sockets.append(socket_of(tmp_path))
    (tmp_path / "infill_ls-999.dist-info").mkdir()
    (tmp_path / "infill_ls-999.dist-info" / "METADATA").write_text("Name: infill-ls\nVersion: 999\n")
    sockets.append(socket_of(tmp_path))
    assert len(set(sockets)) == 5
    assert socket_of(tmp_path) == sockets[-1]


def socket_of(installation: Path) -> Path:
    """Where the default worker of the packages in a folder is."""
    code = "from lsp_server.worker.paths import *; print(paths_of(WorkerOptions()).socket)"
    return Path(subprocess.check_output([sys.executable, "-c", code], cwd=installation, text=True).strip())


def test_a_folder_is_one_model_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    sockets = {paths_of(chosen(model)).socket for model in ("model/", "./model", f"{tmp_path}/model/")}
    assert len(sockets) == 1


@pytest.mark.parametrize("name", ["owner/name", "name", "Owner-1/na.me_2"])
def test_name_ignores_the_current_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a checkout with a folder of that name would put its own model into the place of the user's."""
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert chosen(name).model == name


def test_a_path_that_is_too_long_for_a_socket_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / ("a" * 100)))
    with pytest.raises(WorkerError, match=f"too long; set {FOLDER_VARIABLE}"):
        ensure_private_folders(paths_of(WorkerOptions()))
    assert not list(tmp_path.iterdir())


def test_a_temporary_folder_too_long_for_sockets_is_left(tmp_path: Path) -> None:
    (folder := tmp_path / ("a" * 100)).mkdir()
    code = "from lsp_server.worker.paths import *; print(paths_of(WorkerOptions()).socket)"
    given = {**os.environ, FOLDER_VARIABLE: "", "XDG_RUNTIME_DIR": "/nowhere", "TMPDIR": str(folder)}
    socket = Path(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=given, text=True).strip())
    assert socket.parent.parent == Path("/tmp") and len(os.fsencode(socket)) <= MAX_SOCKET_PATH_BYTES


def test_a_folder_must_be_private(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "private")
    assert folder_permission_problem(tmp_path / "private") is None
    assert folder_permission_problem(tmp_path / "missing") is None
    assert "chmod 700" in folder_permission_problem(tmp_path / "open")
    for mode in (0o1777, 0o777, 0o1755):
        (tmp_path / "open").chmod(mode)
        assert "chmod" not in folder_permission_problem(tmp_path / "open"), "it is not ours alone to close"
        assert FOLDER_VARIABLE in folder_permission_problem(tmp_path / "open")
    (tmp_path / "file").touch(0o600)
    assert folder_permission_problem(tmp_path / "link") and folder_permission_problem(tmp_path / "file")


def test_only_a_chosen_folder_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that workers of other work do not show."""
    monkeypatch.setenv(FOLDER_VARIABLE, "/tmp/chosen")
    assert socket_folders() == (Path("/tmp/chosen"),)
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert paths_of(WorkerOptions()).folder in socket_folders()


def test_names_of_a_model_share_one_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open-dcoder-0.5b").mkdir()
    monkeypatch.chdir(tmp_path)
    names = ("open-dcoder-0.5b", "Open-dCoder-0.5B", "fredzzp/open-dcoder-0.5B")
    assert {chosen(name).model for name in names} == {"open-dcoder-0.5b"}
    assert len({paths_of(chosen(name)) for name in names}) == 1
    assert chosen("./open-dcoder-0.5b").model == str(tmp_path / "open-dcoder-0.5b")


def test_a_pulled_file_is_the_model_of_the_catalogue(tmp_path: Path) -> None:
    entry = catalogue.entry_named("qwen2.5-coder-0.5b")
    folder = model_store.pull_target(entry.name).folder
    assert entry.file
    for place in (folder, folder / entry.file.name):
        assert chosen(str(place)).model == entry.name
    for other in (folder / "other.gguf", tmp_path / entry.name, tmp_path / entry.name / entry.file.name):
        assert chosen(str(other)).model == str(other)


def test_names_of_models_of_other_programs_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "cache"))
    digest = "ab" * 32
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "someone" / "coder" / "0.5b"
    blob, cached = tmp_path / "blobs" / f"sha256-{digest}", tmp_path / "cache" / "Some-Coder-Q4_K_M.gguf"
    for file, content in ((manifest, json.dumps({"layers": [layer]})), (blob, ""), (cached, "")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "someone").mkdir()
    (tmp_path / "someone" / "coder:0.5b").write_text("a file of a checkout")
    assert chosen("someone/coder:0.5b").model == str(blob)
    assert chosen("Some-Coder-Q4_K_M").model == str(cached)
    (tmp_path / "someone" / "coder:7b").write_text("another file")
    missing = chosen("someone/coder:7b")
    assert missing.model == "someone/coder:7b"
    assert "Ollama has no model of this name here" in options_problem(missing)


def test_a_model_that_another_program_gets_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an error that made the user download it, without a restart of the editor."""
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    options = chosen("Some-Coder-Q4_K_M")
    assert options.model == "Some-Coder-Q4_K_M"
    file = tmp_path / "Some-Coder-Q4_K_M.gguf"
    file.touch()
    words = worker_command(paths_of(options), options)
    assert words[words.index("--model") + 1] == str(file)


def test_spellings_of_a_url_share_one_worker() -> None:
    urls = ("http://localhost:8000", "HTTP://LocalHost:8000/", "vllm://localhost:8000/v1", "http://localhost:8000/v1/")
    assert {chosen(url, device="cpu", dtype="float32") for url in urls} == {WorkerOptions(urls[0])}
    editing = (NextEditSettings(model=url, kind="sweep") for url in urls)
    edits = {edit_model_options(Settings(next_edit=each, device="cpu")) for each in editing}
    assert edits == {WorkerOptions(urls[0], edits="sweep")}


def test_what_means_nothing_to_a_model_makes_no_other_worker() -> None:
    assert paths_of(WorkerOptions()) == paths_of(WorkerOptions(idle_s=5))
    assert chosen("auto", server=ServerSettings("gemma", "owner/name", plain_http=True)) == chosen("auto")
    sweep = Settings(next_edit=NextEditSettings(model="./sweep.gguf", kind="sweep", plain_http=True), device="cpu")
    assert edit_model_options(sweep) == WorkerOptions(str(Path("sweep.gguf").resolve()), "cpu", edits="sweep")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(
            ({}, {"model": "owner/name"}),
            ({}, {"device": "cpu"}),
            ({}, {"dtype": "float32"}),
            (URL, {"model": "http://h:2"}),
        ),
        *((URL, {**URL, name: value}) for name, value in (("server_model", "gemma"), ("server_tokenizer", "o/n"))),
        *((URL, {**URL, name: value}) for name, value in (("plain_http", True), ("sends_token", False))),
        (URL, {**URL, "partner": "auto"}),
    ],
)
def test_another_model_device_type_or_server_is_another_worker(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert paths_of(WorkerOptions(**one)).socket != paths_of(WorkerOptions(**other)).socket


def test_a_worker_is_told_its_server_but_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFILL_LS_SERVER_TOKEN", "hush")
    server = ServerSettings("gemma", "owner/name")
    options = chosen("https://gpu.example/v1", device="cuda", server=server, idle_seconds=45.0)
    words = worker_command(paths_of(options), options)
    told = ["--model https://gpu.example", "--server-model gemma", "--server-tokenizer owner/name", "--idle-s 45.0"]
    assert all(each in " ".join(words) for each in told)
    assert not {"--device", "--plain-http", "hush", "--no-sends-token"} & set(words)
    theirs = WorkerOptions("https://gpu", sends_token=False)
    assert "--no-sends-token" in worker_command(paths_of(theirs), theirs)


@pytest.mark.parametrize("url", ["http://gpu.example", "https://me:hush@gpu.example", "ftp://gpu.example"])
def test_no_worker_is_started_for_a_server_that_is_refused(url: str) -> None:
    options = WorkerOptions(url)
    assert options_problem(options) and "hush" not in options_problem(options)
    with pytest.raises(WorkerError, match=re.escape(options_problem(options))):
        worker_command(paths_of(options), options)

"""Models of other programs: where the server looks for them, how it describes them, and malicious folders."""

import json
import os
import tempfile
from functools import cache
from pathlib import Path

import pytest

from inference.models import discovery
from inference.models.gguf.architectures import ARCHITECTURES
from tests.inference.models.test_gguf import FIM, HOSTILE, key, packed, whole, write_gguf

OTHER = whole(keys=key("general.architecture", 8, packed("llama\x1b[31m")), key_count=1)
DIGEST = "ab" * 32


FOLDERS = ("OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")
"""The variables that name folders of other programs."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@cache
def good() -> bytes:
    """A small model's file."""
    with tempfile.TemporaryDirectory() as folder:
        write_gguf(FIM, Path(folder) / "fim.gguf")
        return (Path(folder) / "fim.gguf").read_bytes()


def put(path: Path, content: bytes | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(good() if content is None else content)
    return path


def manifest(models: Path, *parts: str) -> None:
    model = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{DIGEST}", "size": 1}
    put(models.joinpath("manifests", *parts), json.dumps({"layers": [model]}).encode())


def test_models_of_each_program_are_found_with_their_names(home: Path) -> None:
    ollama = home / ".ollama" / "models"
    manifest(ollama, "registry.ollama.ai", "library", "qwen2.5-coder", "0.5b")
    blob = put(ollama / "blobs" / f"sha256-{DIGEST}")
    studio = put(home / ".lmstudio" / "models" / "bartowski" / "Qwen2.5-Coder-GGUF" / "Qwen2.5-Coder-Q4_K_M.gguf")
    cached = put(home / ".cache" / "llama.cpp" / "ggml-org_qwen2.5-coder.gguf")
    hub = put(home / ".cache" / "huggingface" / "hub" / "models--a--b" / "snapshots" / "c" / "x.gguf", OTHER)
    found = {(one.program, one.name): one for one in discovery.discover_foreign_models()}
    assert {place: one.path for place, one in found.items()} == {
        ("Ollama", "qwen2.5-coder:0.5b"): str(blob),
        ("LM Studio", "Qwen2.5-Coder-Q4_K_M"): str(studio),
        ("llama.cpp", "ggml-org_qwen2.5-coder"): str(cached),
        ("Hugging Face", "x"): str(hub),
    }
    assert [one.can_fill for one in discovery.discover_foreign_models()] == [True, True, True, False]
    problem = f"a GGUF file of architecture 'llama\\x1b[31m' cannot fill holes; {' or '.join(ARCHITECTURES)} can"
    assert found["Hugging Face", "x"].problem == problem


def test_folders_that_the_environment_names_are_looked_into(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest(tmp_path / "o", "host", "library", "coder", "tag")
    put(tmp_path / "o" / "blobs" / f"sha256-{DIGEST}")
    put(tmp_path / "l" / "a.gguf")
    put(tmp_path / "h" / "models--x" / "snapshots" / "r" / "b.gguf")
    for name, folder in {"OLLAMA_MODELS": "o", "LLAMA_CACHE": "l", "HF_HUB_CACHE": "h"}.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    assert {one.name for one in discovery.discover_foreign_models()} == {"coder:tag", "a", "b"}


def test_later_parts_of_split_files_count_only_in_its_size(home: Path) -> None:
    later = put(home / ".lmstudio" / "models" / "x" / "y" / "big-00002-of-00002.gguf")
    assert discovery.discover_foreign_models() == []
    put(later.with_name("big-00001-of-00002.gguf"))
    assert [one.bytes_ for one in discovery.discover_foreign_models()] == [2 * len(good())]


def test_a_file_that_two_programs_share_is_told_once(home: Path) -> None:
    real = put(home / ".cache" / "llama.cpp" / "a.gguf")
    link = home / ".lmstudio" / "models" / "p" / "a.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    told = list[tuple[int, int]]()
    assert len(discovery.discover_foreign_models(lambda *done: told.append(done))) == 1
    assert told == [(0, 1)]


def test_links_to_one_file_do_not_use_up_the_limit(home: Path) -> None:
    studio = home / ".lmstudio" / "models"
    real = put(studio / "a" / "coder.gguf")
    for number in range(250):
        (os.link if number % 2 else os.symlink)(real, studio / f"a/{number}.gguf")
    last = put(studio / "b" / "last.gguf", good() + b"0")
    assert str(last) in {one.path for one in discovery.discover_foreign_models()}
    assert len(discovery.discover_foreign_models()) == 2


def test_a_hostile_file_is_told_with_its_problem(home: Path) -> None:
    torn = [good()[:1000], good()[: len(good()) // 2], good()[:-1]]
    for content in [content for content, _ in HOSTILE.values()] + torn:
        put(home / ".cache" / "llama.cpp" / "coder.gguf", content)
        (one,) = discovery.discover_foreign_models()
        assert one.problem and one.problem.isprintable()
        assert not one.can_fill
    assert one.problem.startswith("is damaged") and one.problem.endswith("download it again")


BAD_MANIFESTS = {
    "a path": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../../../etc/passwd"}],
    "numbers": [1, 2, 3],
    "text": "layers",
    "another kind": [{"mediaType": "application/x", "digest": f"sha256:{DIGEST}"}],
    "not UTF-8": b"\xff",
    "nested": b"[" * 100_000,
    "a number without end": b'{"layers": ' + b"1" * 400_000 + b"}",
    "a list": b"[]",
}
"""What one holds, or the layers that it names."""


@pytest.mark.parametrize("bad", BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_a_manifest_that_makes_no_sense_names_nothing(home: Path, bad: object) -> None:
    models = home / ".ollama" / "models"
    content = bad if isinstance(bad, bytes) else json.dumps({"layers": bad}).encode()
    put(models / "manifests" / "r" / "library" / "m" / "t", content)
    put(models / "blobs" / f"sha256-{DIGEST}")
    assert discovery.discover_foreign_models() == []


def test_pipes_loops_of_links_and_odd_names_do_no_harm(home: Path) -> None:
    folder = home / ".cache" / "llama.cpp"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.gguf")
    (folder / "loop.gguf").symlink_to(folder / "loop.gguf")
    (folder / "round").symlink_to(folder)
    put(folder / "coder\x1b]0;x\x07.gguf")
    manifests = home / ".ollama" / "models" / "manifests"
    manifests.mkdir(parents=True)
    os.mkfifo(manifests / "pipe")
    os.mkfifo(put(manifests / "r" / "library" / "m" / "t", b"{}").parent / "pipe")
    (one,) = discovery.discover_foreign_models()
    assert one.name == r"coder\x1b]0;x\x07"
    assert not one.can_fill and one.path.isprintable() and one.problem == "its path has control characters; rename it"


def test_thousands_of_files_are_not_all_looked_at(home: Path) -> None:
    folder = home / ".cache" / "llama.cpp"
    folder.mkdir(parents=True)
    for number in range(1000):
        (folder / f"{number}.gguf").write_bytes(b"")
    assert len(discovery.discover_foreign_models()) <= 200


def test_no_folder_is_listed_beyond_the_limit_of_entries(home: Path) -> None:
    folder = home / ".cache" / "llama.cpp"
    one = put(folder / "other", b"")
    for number in range(19_950):
        os.link(one, folder / str(number))
    for number in range(100):
        put(folder / "last" / f"{number}.gguf", b"")
    assert 0 < len(discovery.discover_foreign_models()) < 100

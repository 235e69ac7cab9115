"""The token of a server: from the environment, or from a private file. No message shows it."""

import os
import tracemalloc
from pathlib import Path

import pytest

from inference.models.family import ModelError
from inference.remote import server_token
from inference.remote.address import MODEL_SERVER

HUSH = "hf_hush-hush/123=="


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(MODEL_SERVER.token_variable, raising=False)
    found = server_token.token_file()
    assert tmp_path in found.parents
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def write(file: Path, content: str, mode: int = 0o600) -> None:
    file.write_text(content)
    file.chmod(mode)


def refusal() -> str:
    with pytest.raises(ModelError) as refused:
        server_token.read_token({})
    assert HUSH not in str(refused.value)
    return str(refused.value)


def test_without_a_token_there_is_none(file: Path) -> None:
    assert (server_token.read_token({}), server_token.token_source({})) == ("", "")


def test_a_file_in_place_of_the_folder_is_no_token(file: Path) -> None:
    file.parent.rmdir()
    file.parent.write_text("")
    assert server_token.read_token({}) == ""


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "  \n\n"])
def test_the_file_is_read_and_the_environment_beats_it(file: Path, end: str) -> None:
    write(file, HUSH + end)
    assert (server_token.read_token({}), server_token.token_source({})) == (HUSH, str(file))
    assert server_token.read_token({MODEL_SERVER.token_variable: f"{HUSH}2{end}"}) == f"{HUSH}2"
    assert server_token.token_source({MODEL_SERVER.token_variable: HUSH}) == MODEL_SERVER.token_variable
    assert server_token.read_token({MODEL_SERVER.token_variable: " "}) == HUSH


def test_what_is_not_a_private_file_is_refused_at_once(file: Path, tmp_path: Path) -> None:
    for mode in (0o644, 0o640, 0o604, 0o660, 0o777):
        write(file, HUSH, mode)
        assert f"run: chmod 600 {file}" in refusal()
    file.chmod(0o400)
    assert server_token.read_token({}) == HUSH
    write(tmp_path / "other", HUSH)
    for target in ("other", "missing"):
        file.unlink(missing_ok=True)
        file.symlink_to(tmp_path / target)
        assert "is a link" in refusal()
    file.unlink()
    file.mkdir()
    assert "replace it by a file with the server's token" in refusal()
    file.rmdir()
    os.mkfifo(file, 0o600)
    assert "replace it by a file with the server's token" in refusal()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        (f"{HUSH}\n{HUSH}", "a line break"),
        (f"TOKEN = {HUSH}", "a space"),
        (f"{HUSH}\N{LATIN SMALL LETTER E WITH ACUTE}", "another character"),
        (HUSH * 500, "more than 4096 characters"),
    ],
)
def test_what_cannot_be_a_token_is_refused(file: Path, content: str, said: str) -> None:
    write(file, content)
    assert said in refusal()


def test_of_something_else_only_the_start_is_read(file: Path) -> None:
    write(file, HUSH)
    os.truncate(file, 1 << 25)
    tracemalloc.start()
    try:
        assert "more than 4096 characters" in refusal()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(file: Path) -> None:
    write(file, HUSH)
    os.chown(file, 65534, 65534)
    assert "belongs to another user" in refusal()


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="root can read anything")
def test_a_file_that_cannot_be_read_is_refused(file: Path) -> None:
    write(file, HUSH, 0o000)
    assert "cannot be read" in refusal()

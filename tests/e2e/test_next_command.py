"""`infill-ls next` as a user runs it: the real command, on files."""

import json
from pathlib import Path

import pytest

from lsp_server.cli import main

OLD = "def f():\n    größe = 1  # 😀\n    return größe + größe\n"
NEW = OLD.replace("größe", "size", 1)
RESULT = OLD.replace("größe", "size")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    now, then = tmp_path / "main.py", tmp_path / "old"
    now.write_text(NEW)
    then.write_text(OLD)
    return now, then


def test_json_has_each_edit_and_the_result(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", str(files[0]), "--since", str(files[1]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["result"] == RESULT
    start, end = {"line": 2, "character": 11}, {"line": 2, "character": 16}
    assert found["edits"][0] == {"range": {"start": start, "end": end}, "text": "size"}
    assert len(found["edits"]) == 2
    assert files[0].read_text() == NEW


def test_a_diff_and_writing_into_the_file(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", str(files[0]), "--since", str(files[1]), "--diff"]) == 0
    assert "-    return größe + größe\n+    return size + size\n" in capsys.readouterr().out
    assert main(["next", str(files[0]), "--since", str(files[1]), "--write"]) == 0
    assert files[0].read_text() == RESULT


def test_nothing_to_offer_is_no_failure(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", str(files[1]), "--since", str(files[1]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"edits": [], "result": OLD}


def test_bad_input_is_one_line(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    secret = files[0].with_name(".env")
    secret.write_text("A=1\n")
    for file, since in (("no.py", files[1]), (files[0], "no"), (secret, "-")):
        assert main(["next", str(file), "--since", str(since)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("model", [str(Path(__file__).parents[1] / "data" / "fim"), "no/model"])
def test_the_model_is_asked_second(files: tuple[Path, Path], model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A small model that knows no code, and one that cannot be loaded: the command says so."""
    assert main(["next", str(files[0]), "--since", str(files[1]), "--json", "--model", model]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["edits"][0]["text"] == "size"
    assert ("no edits from the model: " in said.err) == (model == "no/model")


def test_a_flag_with_a_bad_value_is_one_line(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", str(files[0]), "--since", str(files[1]), "--model", ""]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1

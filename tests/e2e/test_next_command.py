"""`infill-ls next` as a user runs it: the real command, on files."""

import json
import subprocess
from contextlib import chdir, suppress
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


def test_names_reach_a_terminal_without_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As escapes, and in a diff as git writes them."""
    name = "a\x1b]0;owned\x07\u202e\x9b31m.py"
    file, old = tmp_path / name, tmp_path / f"old{name}"
    for path, text in ((file, NEW), (old, OLD)):
        path.write_text(text)
    for words in (
        *(("next", str(file), "--since", str(old), shape) for shape in ("--diff", "--write")),
        ("next", str(tmp_path / f"no{name}"), "--since", "-"),
        ("fill", str(file), "--diff"),
        ("fill", str(file), name),
    ):
        with suppress(SystemExit):
            main(words)
        said = "".join(capsys.readouterr())
        assert said
        assert all(each.isprintable() or each == "\n" for each in said), words


def test_a_diff_of_an_odd_name_can_be_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = 'a\x1b "\u202e.py'
    file, old = tmp_path / name, tmp_path / "old"
    file.write_text(NEW)
    old.write_text(OLD)
    with chdir(tmp_path):
        assert main(["next", name, "--since", "old", "--diff"]) == 0
        git = ["git", "apply", "-"]
        subprocess.run(git, input=capsys.readouterr().out, text=True, check=True)
    assert file.read_text() == RESULT


def test_bad_input_is_one_line(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    secret = files[0].with_name(".env")
    secret.write_text("A=1\n")
    (files[0].parent / "innocent").symlink_to(".env")
    hidden = files[0].parent / "sub" / "hidden.py"
    hidden.parent.mkdir()
    hidden.write_text(OLD)
    (hidden.parent / "infill-ls.toml").write_text('secretGlobs = ["hidden.py"]\n')
    old = (secret, files[0].parent / "innocent", hidden)
    for file, since in (("no.py", files[1]), (files[0], "no"), (secret, "-"), *((files[0], each) for each in old)):
        assert main(["next", str(file), "--since", str(since)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("calls", [260, 700])
def test_a_rename_is_made_everywhere(files: tuple[Path, Path], calls: int) -> None:
    old = "def parse(x):\n    return x\n\n\n" + "parse(1)\n" * calls
    files[1].write_text(old)
    files[0].write_text(old.replace("parse", "read", 1))
    assert main(["next", str(files[0]), "--since", str(files[1]), "--write"]) == 0
    assert files[0].read_text() == old.replace("parse", "read")


def test_a_rename_that_cannot_be_whole_is_refused(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    often = "def parse(x):\n    return x\n\n\n" + "parse(1)\n" * 1_100
    files[1].write_text(often)
    new = often.replace("parse", "read", 1)
    files[0].write_text(new)
    for shape in ("--write", "--diff", "--json"):
        assert main(["next", str(files[0]), "--since", str(files[1]), shape]) == 2
        said = capsys.readouterr()
        assert (said.out, files[0].read_text()) == ("", new)
        assert "parse occurs more than 1,000 times; nothing was changed" in said.err


@pytest.mark.parametrize("model", [str(Path(__file__).parents[1] / "data" / "fim"), "no/model"])
def test_the_model_is_asked_second(files: tuple[Path, Path], model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A small model that knows no code, and one that cannot be loaded: the command says so."""
    assert main(["next", str(files[0]), "--since", str(files[1]), "--json", "--model", model]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["edits"][0]["text"] == "size"
    assert ("no edits from the model: " in said.err) == (model == "no/model")
